package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.types.StructType

/** What the rows of a workload are: with this and (partition, sequence number) a row is determined. Row `seq`
  * of partition `p` is row `seq * partitions + p` of the whole source, so that the rate is spread evenly over
  * the partitions.
  *
  * @param keys distinct keys, 0 to keys - 1
  * @param zipf skew: the key of frequency rank r has a share proportional to 1 / (r + 1)^zipf
  * @param omega key shuffles per minute of event time: each gives the frequencies to the keys anew, at random
  * @param payloadBytes length of the column `payload`
  * @param startMicros when row 0 is due, microseconds since 1970
  * @param totalRows rows of the whole source, over all partitions
  */
private[workload] final case class WorkloadSpec(
    keys: Int,
    zipf: Double,
    omega: Double,
    payloadBytes: Int,
    schedule: RateSchedule,
    partitions: Int,
    seed: Long,
    startMicros: Long,
    totalRows: Long
) extends MadeUpRows {
  override def source: String = WorkloadSpec.Source
  override def schema: StructType = WorkloadRows.Schema
  override def startingAt(micros: Long): WorkloadSpec = copy(startMicros = micros)
  override def of(partition: Int): PartitionRows = new WorkloadRows(this, partition)
}

private[workload] object WorkloadSpec {

  val Source = "laneshift-workload"

  /** More rows than any query will see, and few enough for a row number to be exact as a double. */
  val Endless: Long = 1L << 52
}
