package org.apache.spark.sql.laneshift.ui

import scala.collection.mutable.{ArrayBuffer, LinkedHashSet}

import org.apache.spark.SparkConf
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.laneshift.driver.{Decision, LaneshiftDecided, LaneshiftSample, QueryRecord}
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore, KVUtils}
import org.apache.spark.status.KVUtils.KVIndexParam
import org.apache.spark.ui.SparkUI
import org.apache.spark.util.kvstore.KVStore

/** The tab in Spark's History Server, from what the event log has of an application. Found by its name in
  * META-INF/services; the History Server's class path needs the plugin's jar.
  */
final class LaneshiftHistoryPlugin extends AppHistoryServerPlugin {
  override def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] =
    Seq(new HistoryListener(store))

  override def setupUI(ui: SparkUI): Unit = {
    val history = new History(ui.store.store)
    if (history.isThere) new LaneshiftTab(ui, () => history.content)
  }

  override def displayOrder: Int = 100
}

/** A sample without partitions. */
private[ui] final class StoredSample(@KVIndexParam val number: Long, val sample: LaneshiftSample)

/** A run of a query as it was seen whole last. */
private[ui] final class StoredRun(@KVIndexParam val runId: String, val number: Long, val query: QueryRecord)

private[ui] final class StoredDecision(@KVIndexParam val number: Long, val decision: Decision)

/** Puts the events of an application into the History Server's store. Of a long life it keeps fewer samples, evenly, and the newest
  * decisions and runs.
  */
private[ui] final class HistoryListener(store: ElementTrackingStore) extends SparkListener {
  private var events = 0L
  private var samples = ArrayBuffer.empty[Long]
  private var skip = 1L
  private var seen = 0L
  private val decisions = ArrayBuffer.empty[Long]
  private val runs = LinkedHashSet.empty[String]

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case sample: LaneshiftSample =>
      events += 1
      sample.queries.filter(_.operators.exists(_.partitions.nonEmpty)).foreach { query =>
        store.write(new StoredRun(query.runId, events, query))
        runs -= query.runId
        runs += query.runId
        if (runs.size > HistoryListener.Runs) {
          store.delete(classOf[StoredRun], runs.head)
          runs -= runs.head
        }
      }
      if (seen % skip == 0) {
        samples += events
        store.write(new StoredSample(events, sample.copy(queries = sample.queries.map(_.brief))))
        if (samples.size > HistoryListener.Samples) thin()
      }
      seen += 1
    case LaneshiftDecided(decision) =>
      events += 1
      decisions += events
      store.write(new StoredDecision(events, decision))
      if (decisions.size > HistoryListener.Decisions)
        store.delete(classOf[StoredDecision], decisions.remove(0))
    case _ => ()
  }

  private def thin(): Unit = {
    val (keep, drop) = samples.zipWithIndex.partition(_._2 % 2 == 0)
    drop.foreach { case (number, _) => store.delete(classOf[StoredSample], number) }
    samples = keep.map(_._1)
    skip *= 2
  }
}

private[ui] object HistoryListener {
  private val Samples = 1000
  private val Decisions = 1000
  private[ui] val Runs = 1000
}

/** What the store has of an application. */
private[ui] final class History(store: KVStore) {
  def isThere: Boolean = store.count(classOf[StoredSample]) > 0

  private def all[T](klass: Class[T]): Seq[T] = KVUtils.viewToSeq(store.view(klass))

  def content: TabContent = {
    val samples = all(classOf[StoredSample]).sortBy(_.number).map(_.sample)
    val moves = samples.flatMap(_.moves)
    // The first sample has moves from before it.
    val times = moves.map(_.timeMs) :+ samples.head.timeMs :+ samples.last.timeMs
    TabContent(
      live = false,
      all(classOf[StoredRun]).sortBy(_.number).map(_.query),
      samples,
      all(classOf[StoredDecision]).sortBy(-_.number).map(_.decision),
      moves,
      times.min,
      times.max
    )
  }
}
