package org.apache.spark.sql.laneshift.rescale

import org.apache.spark.sql.execution.streaming.RealTimeTrigger
import org.apache.spark.sql.execution.streaming.checkpointing.{OffsetSeqBase, OffsetSeqLog}
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, MicroBatchExecutionContext}

/** The offset log of a running query, in Spark's place: through it passes the query's own thread between any two batches,
  * when the next one is decided and nothing of it has been done. In micro-batch that is when Spark writes the batch's offsets, in
  * Real-time Mode, which writes them at the batch's end, when it reads those of the batch before to tell its sources.
  *
  * @param atBoundary may let the batch before be followed by one that is not Spark's: gives how many partitions the query
  *   has from then on
  */
private[rescale] final class BoundaryLog(
    query: MicroBatchExecution,
    path: String,
    atBoundary: MicroBatchExecutionContext => Option[Int]
) extends OffsetSeqLog(query.sparkSessionForStream, path) {
  private val realTime = query.trigger.isInstanceOf[RealTimeTrigger]

  // What happens at the boundary reads and writes this log, too. Only the query's thread looks here.
  private var inside = false

  override def add(batch: Long, offsets: OffsetSeqBase): Boolean =
    (if (realTime) None else context.filter(_.batchId == batch)).flatMap(boundary) match {
      case Some(partitions) => super.add(batch + 1, Checkpoint.withPartitions(offsets, partitions))
      case None => super.add(batch, offsets)
    }

  override def get(batch: Long): Option[OffsetSeqBase] = {
    if (realTime) context.filter(_.batchId == batch + 1).foreach(boundary)
    super.get(batch)
  }

  /** Of the batch that Spark decides on now, if this is its thread. */
  private def context: Option[MicroBatchExecutionContext] =
    if (inside || (Thread.currentThread ne query.queryExecutionThread)) None
    else
      query.getLatestExecutionContext() match {
        case c: MicroBatchExecutionContext if !c.isCurrentBatchConstructed => Some(c)
        case _ => None
      }

  private def boundary(context: MicroBatchExecutionContext): Option[Int] = {
    inside = true
    try atBoundary(context)
    finally inside = false
  }
}

private[rescale] object BoundaryLog {

  /** Puts it in place, between two decisions of the query's thread. */
  def install(query: MicroBatchExecution, atBoundary: MicroBatchExecutionContext => Option[Int]): Unit =
    query.withProgressLocked {
      val log = new BoundaryLog(query, query.offsetLog.metadataPath.toString, atBoundary)
      Inside.setOffsetLog(query, log)
    }
}
