package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.laneshift.source.PacedSource

/** Dealt rows as a stream: micro-batch, Trigger.AvailableNow and Real-time Mode over the same offsets.
  *
  * @param paced whether a row waits until it is due
  * @param batchLimit most rows of a micro-batch
  */
private[laneshift] abstract class DealtStream(rows: DealtRows, paced: Boolean, batchLimit: Option[Long])
    extends MicroBatchStream
    with SupportsTriggerAvailableNow
    with SupportsRealTimeMode
    with PacedSource {

  private var toTheEnd = false // Trigger.AvailableNow: all of totalRows, due or not

  override def initialOffset(): Offset = WorkloadOffset.initial(rows)

  override def deserializeOffset(json: String): Offset = WorkloadOffset.parse(json, rows)

  override def getDefaultReadLimit: ReadLimit = batchLimit.fold(ReadLimit.allAvailable())(ReadLimit.maxRows)

  override def latestOffset(): Offset =
    throw new UnsupportedOperationException(
      s"${rows.source}: latestOffset(Offset, ReadLimit) is the one to call"
    )

  /** The source's own limit, from its options, holds whatever is asked: Trigger.Once does not lift it, for there may be no last
    * row.
    */
  override def latestOffset(start: Offset, limit: ReadLimit): Offset =
    BatchPlanner.advance(
      start.asInstanceOf[WorkloadOffset],
      rows,
      available(),
      Math.min(batchLimit.getOrElse(WorkloadSpec.Endless), DealtStream.most(limit))
    )

  /** Rows of the source that a micro-batch may reach now. */
  protected def available(): Long = if (toTheEnd || !paced) rows.totalRows else rows.dueBy(WallClock.read())

  override def reportLatestOffset(): Offset = available() match {
    case WorkloadSpec.Endless => null
    case n => WorkloadOffset(rows.seed, (0 until rows.partitions).map(rows.dealt(n, _)))
  }

  override def prepareForTriggerAvailableNow(): Unit = toTheEnd = true

  /** Refuses, by name, the options that limit a micro-batch. */
  protected def rejectBatchLimits(limits: (String, Option[Long])*)(wayOut: String): Unit =
    limits.collectFirst { case (name, Some(n)) =>
      throw new WorkloadOptionException(
        s"Option '$name' of ${rows.source} is '$n', but batches of Trigger.RealTime end by time. " +
          s"Leave it out; $wayOut."
      )
    }

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    val (from, until) = (start.asInstanceOf[WorkloadOffset], end.asInstanceOf[WorkloadOffset])
    if (from == until) Array.empty
    else Array.tabulate(rows.partitions)(p => WorkloadInputPartition(p, from.next(p), until.next(p)))
  }

  override def planInputPartitions(start: Offset): Array[InputPartition] = {
    val from = start.asInstanceOf[WorkloadOffset]
    Array.tabulate(rows.partitions)(p =>
      WorkloadInputPartition(p, from.next(p), rows.dealt(rows.totalRows, p))
    )
  }

  override def mergeOffsets(offsets: Array[PartitionOffset]): Offset =
    WorkloadOffset.merge(offsets.toSeq, rows)

  override def commit(end: Offset): Unit = ()

  override def stop(): Unit = ()
}

private object DealtStream {
  private def most(limit: ReadLimit): Long = limit match {
    case rows: ReadMaxRows => rows.maxRows
    case _ => WorkloadSpec.Endless
  }
}
