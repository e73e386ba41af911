package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.connector.read.PartitionReaderFactory
import org.apache.spark.sql.connector.read.streaming.{Offset, ReadLimit}

/** The workload as a stream, which need not have an end. */
private[workload] final class WorkloadStream(options: WorkloadOptions, spec: WorkloadSpec)
    extends DealtStream(spec, options.paced, options.rowsPerBatch.orElse(options.maxRowsPerTrigger)) {

  @volatile private var realTime = false

  /** Real-time Mode asks as well, although its batches end by time: any far offset will do. */
  override protected def available(): Long = {
    val rows = super.available()
    if (realTime && rows == WorkloadSpec.Endless) WorkloadStream.FarAway else rows
  }

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    if (available() == WorkloadSpec.Endless && options.rowsPerBatch.orElse(options.maxRowsPerTrigger).isEmpty)
      throw new WorkloadOptionException(
        "laneshift-workload with pacing=none has no end to its first micro-batch. " +
          "Set one of rowsPerBatch, maxRowsPerTrigger and totalRows, or use Trigger.RealTime."
      )
    super.latestOffset(start, limit)
  }

  override def prepareForTriggerAvailableNow(): Unit = {
    if (!options.bounded)
      throw new WorkloadOptionException(
        "laneshift-workload never ends, so Trigger.AvailableNow would not either. Set the option totalRows."
      )
    super.prepareForTriggerAvailableNow()
  }

  override def prepareForRealTimeMode(): Unit = {
    realTime = true
    rejectBatchLimits(
      "rowsPerBatch" -> options.rowsPerBatch,
      "maxRowsPerTrigger" -> options.maxRowsPerTrigger
    )("rowsPerSecond and pacing set the speed, totalRows the end")
  }

  override def createReaderFactory(): PartitionReaderFactory = WorkloadReaderFactory(spec, options.paced)

  override def toString: String =
    s"laneshift-workload[${options.identity.map { case (k, v) => s"$k=$v" }.mkString(", ")}]"
}

private object WorkloadStream {

  /** More rows than a batch of Real-time Mode can read. */
  private val FarAway = 1000000000000L
}
