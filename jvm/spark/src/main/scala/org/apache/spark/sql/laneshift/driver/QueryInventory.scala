package org.apache.spark.sql.laneshift.driver

import java.util.{LinkedHashMap, Map => JMap}

import scala.jdk.CollectionConverters._

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

/** The queries of all sessions of this driver, from the events that Spark posts; remembers some that have ended. */
object QueryInventory extends SparkListener {
  private val Remembered = 1000

  private val runs = new LinkedHashMap[String, QueryRun] {
    override protected def removeEldestEntry(eldest: JMap.Entry[String, QueryRun]): Boolean =
      size > Remembered
  }

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case e: QueryStartedEvent =>
      put(QueryRun(e.id.toString, e.runId.toString, Option(e.name), active = true))
    case e: QueryProgressEvent =>
      synchronized {
        Option(runs.get(e.progress.runId.toString))
          .foreach(run => put(after(e.progress, run)))
      }
    case e: QueryTerminatedEvent =>
      synchronized {
        val known = Option(runs.get(e.runId.toString))
        put(
          known.fold(QueryRun(e.id.toString, e.runId.toString, None, active = false))(_.copy(active = false))
        )
      }
      ExecutorDirectory.forget(e.runId.toString)
    case _ => ()
  }

  private def after(p: StreamingQueryProgress, run: QueryRun): QueryRun = {
    // Spark also reports while it waits, under the number of a batch to come.
    val done = p.durationMs.containsKey("addBatch")
    val read = SourceCount(run.read.fold(0L)(_.rows) + p.numInputRows, Some(p.batchId))
    run.copy(batch = Some(BatchView.of(p)), read = if (done) Some(read) else run.read)
  }

  private def put(run: QueryRun): Unit = synchronized { runs.put(run.runId, run); () }

  def all: Seq[QueryRun] = synchronized(runs.values().asScala.toList)

  def clear(): Unit = synchronized(runs.clear())
}
