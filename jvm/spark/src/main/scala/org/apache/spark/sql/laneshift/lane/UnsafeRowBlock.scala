package org.apache.spark.sql.laneshift.lane

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

import laneshift.lane.{RowBlock, RowQueue}

/** Rows side by side in one array: appending copies bytes and allocates nothing. Starts small, ends at about 32 KiB. Whoever
  * reads a row brings one with its number of fields.
  */
private[laneshift] final class UnsafeRowBlock extends RowBlock[UnsafeRow] {
  private var data = new Array[Byte](UnsafeRowBlock.StartBytes)
  private var starts = new Array[Int](UnsafeRowBlock.StartRows)
  private var shards = new Array[Int](UnsafeRowBlock.StartRows)
  private var used = 0
  private var count = 0
  private var extracted = 0
  private var extractedBytes = 0L

  override def size: Int = count
  override def rows: Int = count - extracted
  override def bytes: Long = used - extractedBytes
  override def isFull: Boolean = used >= UnsafeRowBlock.FullBytes || count >= UnsafeRowBlock.FullRows
  override def shardAt(i: Int): Int = shards(i)

  override def append(row: UnsafeRow, shard: Int): Unit = {
    val size = row.getSizeInBytes
    if (used + size > data.length) data = Arrays.copyOf(data, math.max(data.length * 2, used + size))
    if (count == starts.length) {
      starts = Arrays.copyOf(starts, count * 2)
      shards = Arrays.copyOf(shards, count * 2)
    }
    Platform.copyMemory(
      row.getBaseObject,
      row.getBaseOffset,
      data,
      Platform.BYTE_ARRAY_OFFSET.toLong + used,
      size
    )
    starts(count) = used
    shards(count) = shard
    used += size
    count += 1
  }

  /** Points `row` at row `i`; valid as long as the block is not appended to. */
  def read(i: Int, row: UnsafeRow): Unit =
    row.pointTo(data, Platform.BYTE_ARRAY_OFFSET.toLong + starts(i), sizeAt(i))

  private def sizeAt(i: Int): Int = (if (i + 1 < count) starts(i + 1) else used) - starts(i)

  override def extract(shard: Int, from: Int, to: RowQueue[UnsafeRow]): Int = {
    var row: UnsafeRow = null
    var moved = 0
    var i = from
    while (i < count) {
      if (shards(i) == shard) {
        if (row == null) row = new UnsafeRow(0)
        read(i, row)
        to.append(row, shard)
        shards(i) = RowBlock.Extracted
        extractedBytes += sizeAt(i)
        moved += 1
      }
      i += 1
    }
    extracted += moved
    moved
  }
}

private[laneshift] object UnsafeRowBlock {
  private val StartBytes = 512
  private val StartRows = 8
  private val FullBytes = 32 * 1024
  private val FullRows = 512
}
