package org.apache.spark.sql.laneshift.workload.nexmark

import org.apache.spark.sql.laneshift.workload.{MadeUpRows, PartitionRows, RateSchedule, WorkloadSpec}
import org.apache.spark.sql.types.StructType

/** What the rows of one table are: with this and (partition, sequence number) a row is determined.
  *
  * @param schedule when events are due, of all three tables together
  * @param hot shares of what goes to the hot one of the moment
  * @param extraBytes length of the column `extra`
  * @param startMicros when event 0 is due, microseconds since 1970
  * @param totalEvents of all three tables together
  */
private[nexmark] final case class NexmarkSpec(
    table: NexmarkTable,
    schedule: RateSchedule,
    partitions: Int,
    seed: Long,
    hot: HotShares,
    extraBytes: Int,
    startMicros: Long,
    totalEvents: Long
) extends MadeUpRows {
  override def source: String = NexmarkSpec.Source
  override def schema: StructType = table.schema
  override def startingAt(micros: Long): NexmarkSpec = copy(startMicros = micros)
  override def of(partition: Int): PartitionRows = NexmarkRows.of(this, partition)

  override val totalRows: Long =
    if (totalEvents < WorkloadSpec.Endless) table.rowsOf(totalEvents) else WorkloadSpec.Endless

  override def dueBy(nowMicros: Long): Long =
    Math.min(totalRows, table.rowsOf(schedule.rowsBy(nowMicros - startMicros)))
}

/** @param auctions share of the bids that are for the hot auction
  * @param bidders share of the bids that the hot bidder makes
  * @param sellers share of the auctions that the hot seller opens
  */
private[nexmark] final case class HotShares(auctions: Double, bidders: Double, sellers: Double)

private[nexmark] object NexmarkSpec {
  val Source = "laneshift-nexmark"
}
