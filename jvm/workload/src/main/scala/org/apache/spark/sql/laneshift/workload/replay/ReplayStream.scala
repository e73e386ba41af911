package org.apache.spark.sql.laneshift.workload.replay

import java.util.Arrays

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.laneshift.workload.{
  DealtRows,
  DealtStream,
  RateSchedule,
  WorkloadInputPartition,
  WorkloadReader
}

/** What the driver keeps of the rows: their positions, by partition. */
private[replay] final class ReplayPlan(
    positions: Array[Array[Int]],
    override val schedule: RateSchedule,
    override val startMicros: Long
) extends DealtRows {
  override def source: String = ReplayOptions.Source
  override def seed: Long = 0 // rows are recognised by the record in the checkpoint
  override def partitions: Int = positions.length
  override val totalRows: Long = positions.map(_.length.toLong).sum

  override def dealt(rows: Long, partition: Int): Long = {
    val i = Arrays.binarySearch(positions(partition), Math.min(rows, totalRows).toInt)
    if (i >= 0) i else -i - 1
  }
}

private[replay] final class ReplayStream(
    options: ReplayOptions,
    columns: Int,
    plan: ReplayPlan,
    blocks: Array[Broadcast[ReplayBlock]]
) extends DealtStream(plan, options.paced, options.maxRowsPerTrigger) {

  override def prepareForRealTimeMode(): Unit =
    rejectBatchLimits("maxRowsPerTrigger" -> options.maxRowsPerTrigger)("rowsPerSecond sets the speed")

  override def createReaderFactory(): PartitionReaderFactory =
    ReplayReaderFactory(blocks, columns, plan.schedule, plan.startMicros, options.paced)

  override def stop(): Unit = blocks.foreach(_.destroy())

  override def toString: String = s"${plan.source}[${options.files.path}]"
}

private[replay] final case class ReplayReaderFactory(
    blocks: Array[Broadcast[ReplayBlock]],
    columns: Int,
    schedule: RateSchedule,
    startMicros: Long,
    paced: Boolean
) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = partition match {
    case p: WorkloadInputPartition =>
      new WorkloadReader(
        new ReplayRows(blocks(p.partition).value, columns, schedule, startMicros),
        paced,
        p,
        WorkloadReader.paceOfTask(blocks.length)
      )
    case other => throw new IllegalArgumentException(s"not a partition of ${ReplayOptions.Source}: $other")
  }
}
