package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType

/** The numbered rows of a source, dealt out to its partitions, and when each is due: what offsets, batches and
  * the stream need to know of them.
  */
private[workload] trait DealtRows {

  /** The source's name, for messages. */
  def source: String

  def partitions: Int

  /** In every offset, to recognise those of other rows. */
  def seed: Long

  def schedule: RateSchedule

  /** When row 0 is due, microseconds since 1970. */
  def startMicros: Long

  /** Rows of the whole source, over all partitions. */
  def totalRows: Long

  /** The first sequence number of `partition` that is not among the first `rows` rows of the source. Here row
    * `seq` of partition p is row `seq * partitions + p` of the source, so that its rate is spread evenly.
    */
  def dealt(rows: Long, partition: Int): Long =
    if (rows <= partition) 0L else (rows - partition - 1) / partitions + 1

  def bounded: Boolean = totalRows < WorkloadSpec.Endless

  /** Rows of the source that are due at `nowMicros` (since 1970), `totalRows` at most. */
  def dueBy(nowMicros: Long): Long = Math.min(totalRows, schedule.rowsBy(nowMicros - startMicros))
}

/** Rows that follow from options alone. */
private[workload] trait MadeUpRows extends DealtRows {
  def schema: StructType

  /** The same rows, due from another time on. */
  def startingAt(micros: Long): MadeUpRows

  def of(partition: Int): PartitionRows
}

/** The rows of one partition, by sequence number. One row object may be reused: who keeps a row copies it. */
private[workload] trait PartitionRows {

  /** When row `seq` is due, microseconds since 1970. */
  def dueMicros(seq: Long): Long

  /** Row `seq`, which is due at `dueMicros`. */
  def apply(seq: Long, dueMicros: Long): InternalRow
}
