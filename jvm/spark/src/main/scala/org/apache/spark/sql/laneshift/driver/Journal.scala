package org.apache.spark.sql.laneshift.driver

import java.util.ArrayDeque
import java.util.concurrent.{Executors => Threads, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent

/** Samples of all elastic queries over time: the newest in memory for the tab, all of them for `post`, which writes Spark's
  * event log for the History Server. Whole ones are rare, because they grow with partitions and shards.
  */
private[laneshift] final class Journal(post: SparkListenerEvent => Unit) extends SparkListener with Logging {
  private val kept = new ArrayDeque[LaneshiftSample]
  private var samples = 0L
  private var lastMs = System.currentTimeMillis()

  private val timer = Threads.newSingleThreadScheduledExecutor { work =>
    val thread = new Thread(work, "laneshift journal")
    thread.setDaemon(true)
    thread
  }

  def start(): Unit = {
    val turn: Runnable = () => take(whole = samples % Journal.WholeEvery == 0)
    timer.scheduleWithFixedDelay(turn, Journal.EveryMs, Journal.EveryMs, TimeUnit.MILLISECONDS)
    Decisions.onAdded(d => if (d.changes.nonEmpty || d.error.nonEmpty) post(LaneshiftDecided(d)))
  }

  def stop(): Unit = {
    timer.shutdownNow()
    Decisions.onAdded(_ => ())
  }

  /** The newest samples, without partitions, oldest first. */
  def recent: Seq[LaneshiftSample] = synchronized(kept.asScala.toList)

  /** Registered ahead of the inventory: executors still know the query, which is seen whole once more. */
  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case _: QueryTerminatedEvent => take(whole = true)
    case _ => ()
  }

  private def take(whole: Boolean): Unit =
    try
      synchronized {
        val now = System.currentTimeMillis()
        val queries = QueryRecord.running()
        if (queries.nonEmpty) {
          val moves = ExecutorDirectory.handoffs(Journal.Moves, None).map(_._2).filter(_.timeMs > lastMs)
          val sample = LaneshiftSample(now, queries, moves)
          val brief = sample.copy(queries = queries.map(_.brief))
          kept.addLast(brief)
          if (kept.size > Journal.Kept) kept.removeFirst()
          lastMs = now
          samples += 1
          post(if (whole) sample else brief)
        }
      }
    catch {
      case NonFatal(error) => logWarning("A sample for the tab and the event log is missing.", error)
    }
}

private[laneshift] object Journal {
  val EveryMs = 5000L

  /** Every fifth minute. */
  private val WholeEvery = 60

  /** Moves in a sample. */
  private val Moves = 50

  /** Five minutes of samples. */
  private val Kept = 60
}
