package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory}
import org.apache.spark.sql.connector.read.streaming._

/** The source as a stream: micro-batch, Trigger.AvailableNow and Real-time Mode over the same offsets. */
private[workload] final class WorkloadStream(options: WorkloadOptions, spec: WorkloadSpec)
    extends MicroBatchStream
    with SupportsTriggerAvailableNow
    with SupportsRealTimeMode {

  private val batchLimit = options.rowsPerBatch.orElse(options.maxRowsPerTrigger)
  private var toTheEnd = false // Trigger.AvailableNow: all of totalRows, due or not

  override def initialOffset(): Offset = WorkloadOffset.initial(spec)

  override def deserializeOffset(json: String): Offset = WorkloadOffset.parse(json, spec)

  override def getDefaultReadLimit: ReadLimit = batchLimit.fold(ReadLimit.allAvailable())(ReadLimit.maxRows)

  override def latestOffset(): Offset =
    throw new UnsupportedOperationException(
      "laneshift-workload: latestOffset(Offset, ReadLimit) is the one to call"
    )

  /** The limit is the source's own, from its options: Trigger.Once does not lift it, for there may be no last
    * row.
    */
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    val upTo = available()
    if (upTo == WorkloadSpec.Endless && batchLimit.isEmpty)
      throw new WorkloadOptionException(
        "laneshift-workload with pacing=none has no end to its first micro-batch. " +
          "Set one of rowsPerBatch, maxRowsPerTrigger and totalRows, or use Trigger.RealTime."
      )
    BatchPlanner.advance(
      start.asInstanceOf[WorkloadOffset],
      spec,
      upTo,
      batchLimit.getOrElse(WorkloadSpec.Endless)
    )
  }

  private def available(): Long =
    if (toTheEnd || !options.paced) spec.totalRows else spec.dueBy(WallClock.read())

  override def reportLatestOffset(): Offset = available() match {
    case WorkloadSpec.Endless => null
    case rows => WorkloadOffset(spec.seed, (0 until spec.partitions).map(spec.dealt(rows, _)))
  }

  override def prepareForTriggerAvailableNow(): Unit = {
    if (!options.bounded)
      throw new WorkloadOptionException(
        "laneshift-workload never ends, so Trigger.AvailableNow would not either. Set the option totalRows."
      )
    toTheEnd = true
  }

  override def prepareForRealTimeMode(): Unit = {
    val set = Seq("rowsPerBatch" -> options.rowsPerBatch, "maxRowsPerTrigger" -> options.maxRowsPerTrigger)
    set.collectFirst { case (name, Some(rows)) =>
      throw new WorkloadOptionException(
        s"Option '$name' of laneshift-workload is '$rows', but batches of Trigger.RealTime end by time. " +
          "Leave it out; rowsPerSecond and pacing set the speed, totalRows the end."
      )
    }
  }

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    val (from, until) = (start.asInstanceOf[WorkloadOffset], end.asInstanceOf[WorkloadOffset])
    if (from == until) Array.empty
    else Array.tabulate(spec.partitions)(p => WorkloadInputPartition(p, from.next(p), until.next(p)))
  }

  override def planInputPartitions(start: Offset): Array[InputPartition] = {
    val from = start.asInstanceOf[WorkloadOffset]
    Array.tabulate(spec.partitions)(p =>
      WorkloadInputPartition(p, from.next(p), spec.dealt(spec.totalRows, p))
    )
  }

  override def mergeOffsets(offsets: Array[PartitionOffset]): Offset =
    WorkloadOffset.merge(offsets.toSeq, spec)

  override def createReaderFactory(): PartitionReaderFactory = WorkloadReaderFactory(spec, options.paced)

  override def commit(end: Offset): Unit = ()

  override def stop(): Unit = ()

  override def toString: String =
    s"laneshift-workload[${options.identity.map { case (k, v) => s"$k=$v" }.mkString(", ")}]"
}
