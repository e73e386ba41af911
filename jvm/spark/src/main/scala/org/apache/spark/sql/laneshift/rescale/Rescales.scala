package org.apache.spark.sql.laneshift.rescale

import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamExecution}
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.conf.LaneshiftConf
import org.apache.spark.sql.laneshift.spec.KeyEncoding

/** How rescales of running queries begin: each run has one at a time. */
private[laneshift] object Rescales {

  /** Begins to give a query `partitions` state partitions; throws [[NotRescalable]], and the query has noticed nothing.
    *
    * @param slots that all its tasks of a batch have together
    * @param newest the run's own at any time: what this gives, once it is there
    * @param underWay all of the application that have not ended
    */
  def begin(
      query: StreamExecution,
      partitions: Int,
      slots: Int,
      newest: () => Option[LiveRescale],
      underWay: Seq[LiveRescale]
  ): LiveRescale = {
    val before = newest()
    before.filterNot(_.state.ended).foreach(busy => throw new NotRescalable.Busy(busy.to))
    if (partitions < 1) throw new NotRescalable.BadNumber(partitions, None)
    val running = query match {
      case q: MicroBatchExecution if q.getClass == classOf[MicroBatchExecution] => q
      case _ =>
        throw new NotRescalable.Unfit(
          "continuous processing and asynchronous progress do not end batches one by one"
        )
    }
    val from = check(running, partitions)
    val conf = running.sparkSessionForStream.sessionState.conf
    requireOwnStores(conf)
    requireOldBatch(conf)
    val budget =
      RescaleBudget(
        conf.getConf(LaneshiftConf.RescaleCores),
        conf.getConf(LaneshiftConf.RescaleBytesPerSecond)
      )
    val beside = (underWay.map(_.budget) :+ budget).map(_.cores).sum
    RealTimeSlots.require(running, from, partitions, slots, beside)
    before.foreach(_.letGo())
    val rescale = new LiveRescale(running, from, partitions, budget, before)
    if (!running.offsetLog.isInstanceOf[BoundaryLog])
      BoundaryLog.install(running, context => newest().flatMap(_.atBoundary(context)))
    rescale
  }

  /** Only stores of ours record what is written to them. */
  private def requireOwnStores(conf: SQLConf): Unit =
    Seq(LaneshiftConf.Enabled -> false, SQLConf.STATE_STORE_UNLOAD_ON_COMMIT -> true).foreach {
      case (option, spoils) =>
        if (conf.getConf(option) == spoils)
          throw new NotRescalable.Unfit(
            s"${option.key} is $spoils, so its stores are Spark's own: stop it, and rescale its checkpoint"
          )
    }

  /** Spark's maintenance takes the new stores for the newest batch's as soon as they are placed; an undo needs the one before. */
  private def requireOldBatch(conf: SQLConf): Unit =
    if (conf.minBatchesToRetain < 2)
      throw new NotRescalable.Unfit(
        s"${SQLConf.MIN_BATCHES_TO_RETAIN.key} is ${conf.minBatchesToRetain}, so Spark would delete what there is to go back to: " +
          "start it with 2 or more, or stop it, and rescale its checkpoint"
      )

  /** How many partitions the query has now. */
  private def check(query: MicroBatchExecution, partitions: Int): Int = {
    val checkpoint = new Checkpoint(
      query.resolvedCheckpointRoot,
      query.sparkSessionForStream.sessionState.newHadoopConf(),
      query.offsetLog,
      query.commitLog
    )
    val last = checkpoint.lastCommitted.getOrElse(
      throw new NotRescalable.Unfit("no batch of it has ended yet")
    )
    checkpoint.requireFit(last, query.sparkSessionForStream.sparkContext)
    val now = checkpoint.partitions(last)
    Option(query.lastExecution) match {
      case None => checkpoint.requireKeysShown(last)
      case Some(batch) =>
        val writers = batch.sparkPlan.collect { case w: StateStoreWriter => w }
        writers.flatMap(KeyEncoding.refusal(_)).foreach { why =>
          // Of a checkpoint each row is looked at, before it goes over.
          val way = if (now > 1) ": stop it, and rescale its checkpoint" else ""
          throw new NotRescalable.Unfit(why + way)
        }
    }
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
