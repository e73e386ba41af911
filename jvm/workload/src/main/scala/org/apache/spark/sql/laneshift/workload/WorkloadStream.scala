package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.connector.read.PartitionReaderFactory
import org.apache.spark.sql.connector.read.streaming.{Offset, ReadLimit}

/** Made-up rows as a stream, which need not have an end. */
private[workload] final class WorkloadStream(options: MadeUpOptions[MadeUpRows], rows: MadeUpRows)
    extends DealtStream(rows, options.paced, options.batchLimit) {

  @volatile private var realTime = false

  /** Real-time Mode asks as well, although its batches end by time: any far offset will do. */
  override protected def available(): Long = {
    val n = super.available()
    if (realTime && n == WorkloadSpec.Endless) WorkloadStream.FarAway else n
  }

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    if (available() == WorkloadSpec.Endless && options.batchLimit.isEmpty)
      throw new WorkloadOptionException(
        s"${rows.source} with pacing=none has no end to its first micro-batch. " +
          s"Set one of ${options.limits.map(_._1).mkString(", ")} and ${options.end}, or use Trigger.RealTime."
      )
    super.latestOffset(start, limit)
  }

  override def prepareForTriggerAvailableNow(): Unit = {
    if (!rows.bounded)
      throw new WorkloadOptionException(
        s"${rows.source} never ends, so Trigger.AvailableNow would not either. Set the option ${options.end}."
      )
    super.prepareForTriggerAvailableNow()
  }

  override def prepareForRealTimeMode(): Unit = {
    realTime = true
    rejectBatchLimits(options.limits: _*)(s"rowsPerSecond and pacing set the speed, ${options.end} the end")
  }

  override def createReaderFactory(): PartitionReaderFactory = WorkloadReaderFactory(rows, options.paced)

  override def toString: String = options.toString
}

private object WorkloadStream {

  /** More rows than a batch of Real-time Mode can read. */
  private val FarAway = 1000000000000L
}
