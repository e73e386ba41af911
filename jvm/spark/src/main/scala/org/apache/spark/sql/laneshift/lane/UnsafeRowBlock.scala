package org.apache.spark.sql.laneshift.lane

import java.nio.ByteBuffer
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

  /** Bytes of the block as [[encode]] writes it. */
  def encodedBytes: Int = Integer.BYTES * (2 + 2 * count) + used

  /** The rows with their shards, places from which rows were extracted included. */
  def encode(to: ByteBuffer): Unit = {
    to.putInt(count).putInt(used)
    var i = 0
    while (i < count) {
      to.putInt(starts(i)).putInt(shards(i))
      i += 1
    }
    to.put(data, 0, used)
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

  /** What [[UnsafeRowBlock.encode]] wrote. Throws IllegalArgumentException at anything else. */
  def decode(from: ByteBuffer): UnsafeRowBlock = {
    val (count, used) = (from.getInt(), from.getInt())
    if (count < 0 || used < 0 || from.remaining.toLong < used + 2L * Integer.BYTES * count)
      throw new IllegalArgumentException(s"$count rows of $used bytes do not fit a message")
    val block = new UnsafeRowBlock
    block.starts = new Array[Int](count)
    block.shards = new Array[Int](count)
    block.data = new Array[Byte](used)
    var i = 0
    while (i < count) {
      block.starts(i) = from.getInt()
      block.shards(i) = from.getInt()
      if (block.starts(i) < (if (i == 0) 0 else block.starts(i - 1)) || block.starts(i) > used)
        throw new IllegalArgumentException(s"row $i of a block begins at ${block.starts(i)} of $used bytes")
      i += 1
    }
    from.get(block.data)
    block.count = count
    block.used = used
    block
  }
  private val StartBytes = 512
  private val StartRows = 8
  private val FullBytes = 32 * 1024
  private val FullRows = 512
}
