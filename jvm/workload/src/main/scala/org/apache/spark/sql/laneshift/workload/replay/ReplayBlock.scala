package org.apache.spark.sql.laneshift.workload.replay

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.laneshift.workload.{PartitionRows, RateSchedule}
import org.apache.spark.unsafe.Platform

/** The encoded rows of one partition.
  *
  * @param positions of each row in the whole source, ascending
  * @param ends where each row's bytes end
  */
private[replay] final class ReplayBlock(val positions: Array[Int], ends: Array[Int], bytes: Array[Byte])
    extends Serializable {

  def length: Int = positions.length

  def point(row: UnsafeRow, i: Int): Unit = {
    val from = if (i == 0) 0 else ends(i - 1)
    row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + from, ends(i) - from)
  }

  /** Writes into column `sent` of every row when it is due: before the block is handed out, not after. */
  def stamp(columns: Int, sent: Int, schedule: RateSchedule, startMicros: Long): Unit = {
    val rows = new ReplayRows(this, columns, schedule, startMicros)
    for (i <- positions.indices) {
      val due = rows.dueMicros(i)
      rows(i, due).setLong(sent, due)
    }
  }
}

private[replay] object ReplayBlock {

  /** Deals the rows of the chunks, in their order, to partitions: to the target of each, or in turn if there are
    * no targets.
    */
  def deal(chunks: Seq[ReplayChunk], partitions: Int): Array[ReplayBlock] = {
    val (rows, size) = (new Array[Int](partitions), new Array[Int](partitions))
    foreach(chunks, partitions) { (target, _, _, _, length) =>
      rows(target) += 1
      size(target) += length
    }
    val positions = rows.map(new Array[Int](_))
    val ends = rows.map(new Array[Int](_))
    val bytes = size.map(new Array[Byte](_))
    val (row, end) = (new Array[Int](partitions), new Array[Int](partitions))
    foreach(chunks, partitions) { (target, position, source, from, length) =>
      System.arraycopy(source, from, bytes(target), end(target), length)
      end(target) += length
      positions(target)(row(target)) = position
      ends(target)(row(target)) = end(target)
      row(target) += 1
    }
    Array.tabulate(partitions)(p => new ReplayBlock(positions(p), ends(p), bytes(p)))
  }

  private def foreach(chunks: Seq[ReplayChunk], partitions: Int)(
      f: (Int, Int, Array[Byte], Int, Int) => Unit
  ): Unit = {
    var position = 0
    for (chunk <- chunks) {
      var from = 0
      for (i <- chunk.lengths.indices) {
        val target = if (chunk.targets.isEmpty) position % partitions else chunk.targets(i)
        f(target, position, chunk.bytes, from, chunk.lengths(i))
        from += chunk.lengths(i)
        position += 1
      }
    }
  }
}

/** Serves the rows of a block to the reader. */
private[replay] final class ReplayRows(
    block: ReplayBlock,
    columns: Int,
    schedule: RateSchedule,
    startMicros: Long
) extends PartitionRows {

  private val due = schedule.cursor()
  private val row = new UnsafeRow(columns)

  override def dueMicros(seq: Long): Long = startMicros + due.dueMicros(block.positions(seq.toInt))

  override def apply(seq: Long, dueMicros: Long): UnsafeRow = {
    block.point(row, seq.toInt)
    row
  }
}
