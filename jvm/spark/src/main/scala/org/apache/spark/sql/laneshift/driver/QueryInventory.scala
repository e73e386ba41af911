package org.apache.spark.sql.laneshift.driver

import scala.collection.mutable

import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.streaming.StreamingQueryListener.{
  QueryProgressEvent,
  QueryStartedEvent,
  QueryTerminatedEvent
}
import org.apache.spark.sql.streaming.StreamingQueryProgress

/** A run of a streaming query, as the driver knows it; `batch` is its newest one that has ended, `read` what it has read of
  * its sources in all that have.
  */
final case class QueryRun(
    id: String,
    runId: String,
    name: Option[String],
    active: Boolean,
    batch: Option[BatchView] = None,
    read: Option[SourceCount] = None
)

/** Rows that sources have given since the run began; in micro-batch those of the batches up to `batchId`. */
final case class SourceCount(rows: Long, batchId: Option[Long])

/** The queries of all sessions of this driver, from the events that Spark posts: all that run, and some that have ended.
  *
  * @param ended is told of each run that has
  */
private[laneshift] final class QueryInventory(executors: ExecutorDirectory, ended: String => Unit = _ => ())
    extends SparkListener {
  private val runs = mutable.LinkedHashMap.empty[String, QueryRun]

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case e: QueryStartedEvent =>
      put(QueryRun(e.id.toString, e.runId.toString, Option(e.name), active = true))
    case e: QueryProgressEvent =>
      synchronized {
        runs.get(e.progress.runId.toString).foreach(run => put(after(e.progress, run)))
      }
    case e: QueryTerminatedEvent =>
      synchronized {
        val known = runs.get(e.runId.toString)
        put(
          known.fold(QueryRun(e.id.toString, e.runId.toString, None, active = false))(_.copy(active = false))
        )
        val over = runs.values.filterNot(_.active).map(_.runId).toList
        over.dropRight(QueryInventory.Remembered).foreach(runs.remove)
      }
      executors.forget(e.runId.toString)
      ended(e.runId.toString)
    case _ => ()
  }

  private def after(p: StreamingQueryProgress, run: QueryRun): QueryRun = {
    // Spark also reports while it waits, under the number of a batch to come.
    val done = p.durationMs.containsKey("addBatch")
    val read = SourceCount(run.read.fold(0L)(_.rows) + p.numInputRows, Some(p.batchId))
    run.copy(batch = Some(BatchView.of(p)), read = if (done) Some(read) else run.read)
  }

  private def put(run: QueryRun): Unit = synchronized(runs.update(run.runId, run))

  def all: Seq[QueryRun] = synchronized(runs.values.toList)

  def active: Seq[QueryRun] = all.filter(_.active)
}

private[driver] object QueryInventory {

  /** Runs that have ended. */
  val Remembered = 1000
}
