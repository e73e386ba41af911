package org.apache.spark.sql.laneshift.rescale

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamExecution}
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink
import org.apache.spark.sql.laneshift.conf.LaneshiftConf
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent

/** The rescales of one application: each run of a query has one at a time. */
private[laneshift] final class Rescales extends SparkListener {
  private val newest = new ConcurrentHashMap[UUID, LiveRescale]

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case ended: QueryTerminatedEvent => of(ended.runId).foreach { rescale =>
        rescale.cancel()
        rescale.letGo()
      }
    case _ => ()
  }

  def of(runId: UUID): Option[LiveRescale] = Option(newest.get(runId))

  /** Those that have not ended. */
  def underWay: Seq[LiveRescale] = newest.values().asScala.filterNot(_.state.ended).toSeq

  /** Asks for `partitions`; throws [[NotRescalable]], and the query has noticed nothing.
    *
    * @param slots that all its tasks of a batch have together
    */
  def ask(query: StreamExecution, partitions: Int, slots: Int): LiveRescale = synchronized {
    of(query.runId).filterNot(_.state.ended).foreach(busy => throw new NotRescalable.Busy(busy.to))
    if (partitions < 1) throw new NotRescalable.BadNumber(partitions, None)
    val running = query match {
      case q: MicroBatchExecution if q.getClass == classOf[MicroBatchExecution] => q
      case _ =>
        throw new NotRescalable.Unfit(
          "continuous processing and asynchronous progress do not end batches one by one"
        )
    }
    val from = Rescales.check(running, partitions)
    val conf = running.sparkSessionForStream.sessionState.conf
    val budget =
      RescaleBudget(
        conf.getConf(LaneshiftConf.RescaleCores),
        conf.getConf(LaneshiftConf.RescaleBytesPerSecond)
      )
    val beside = (underWay.map(_.budget) :+ budget).map(_.cores).sum
    RealTimeSlots.require(running, from, partitions, slots, beside)
    newest.values().removeIf(!_.isOfRunningQuery)
    of(query.runId).foreach(_.letGo())
    val rescale = new LiveRescale(running, from, partitions, budget, of(query.runId))
    newest.put(query.runId, rescale)
    if (!running.offsetLog.isInstanceOf[BoundaryLog])
      BoundaryLog.install(running, context => of(running.runId).flatMap(_.atBoundary(context)))
    rescale
  }

  /** The application ends: so do the threads. */
  def stop(): Unit = newest.values().forEach { r => r.cancel(); () }
}

private object Rescales {

  /** How many partitions the query has now. */
  def check(query: MicroBatchExecution, partitions: Int): Int = {
    val checkpoint = new Checkpoint(
      query.resolvedCheckpointRoot,
      query.sparkSessionForStream.sessionState.newHadoopConf(),
      query.offsetLog,
      query.commitLog
    )
    val last = checkpoint.lastCommitted.getOrElse(
      throw new NotRescalable.Unfit("no batch of it has ended yet")
    )
    checkpoint.requireFit(last)
    val now = checkpoint.partitions(last)
    if (now == partitions) throw new NotRescalable.BadNumber(partitions, Some(now))
    if (query.sink.isInstanceOf[FileStreamSink])
      throw new NotRescalable.Unfit(
        "the log of its file sink has to have every batch, and a take-over is a batch without output"
      )
    checkpoint.requireRoom()
    Inside.require()
    now
  }
}
