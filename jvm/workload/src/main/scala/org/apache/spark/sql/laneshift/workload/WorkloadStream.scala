package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.connector.read.PartitionReaderFactory
import org.apache.spark.sql.connector.read.streaming.{Offset, ReadLimit}

/** Made-up rows as a stream, which need not have an end.
  *
  * @param limits the options that limit a micro-batch, and the most rows that each asks for; one is set at most
  * @param end the option that gives the source an end
  * @param readers make the rows
  * @param shown what the options are, for messages
  */
private[workload] final class WorkloadStream(
    rows: DealtRows,
    paced: Boolean,
    limits: Seq[(String, Option[Long])],
    end: String,
    readers: PartitionReaderFactory,
    shown: String
) extends DealtStream(rows, paced, limits.flatMap(_._2).headOption) {

  @volatile private var realTime = false

  /** Real-time Mode asks as well, although its batches end by time: any far offset will do. */
  override protected def available(): Long = {
    val n = super.available()
    if (realTime && n == WorkloadSpec.Endless) WorkloadStream.FarAway else n
  }

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    if (available() == WorkloadSpec.Endless && limits.forall(_._2.isEmpty))
      throw new WorkloadOptionException(
        s"${rows.source} with pacing=none has no end to its first micro-batch. " +
          s"Set one of ${limits.map(_._1).mkString(", ")} and $end, or use Trigger.RealTime."
      )
    super.latestOffset(start, limit)
  }

  override def prepareForTriggerAvailableNow(): Unit = {
    if (!rows.bounded)
      throw new WorkloadOptionException(
        s"${rows.source} never ends, so Trigger.AvailableNow would not either. Set the option $end."
      )
    super.prepareForTriggerAvailableNow()
  }

  override def prepareForRealTimeMode(): Unit = {
    realTime = true
    rejectBatchLimits(limits: _*)(s"rowsPerSecond and pacing set the speed, $end the end")
  }

  override def createReaderFactory(): PartitionReaderFactory = readers

  override def toString: String = shown
}

private object WorkloadStream {

  /** More rows than a batch of Real-time Mode can read. */
  private val FarAway = 1000000000000L
}
