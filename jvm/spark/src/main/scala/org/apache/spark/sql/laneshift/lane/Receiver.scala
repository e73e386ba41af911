package org.apache.spark.sql.laneshift.lane

import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.laneshift.body.ShardOfHash

import laneshift.ids.LaneId

/** Reads the partition's inputs, one after the other, and sends each row to its shard's lane. Where shards do not move within a
  * batch, rows go by the block: the lanes need the inlet's lock, too.
  */
private[lane] final class Receiver(task: PartitionTask, sources: Seq[Iterator[UnsafeRow]]) {
  private val inputs = task.spec.inputs
  private val shards = new ShardOfHash(task.spec.partitions, task.spec.options.shards)
  private val motion = task.home.receiverMotion
  private var rows = 0L

  /** The lane of each shard for the whole batch, and the block of each lane that is being filled; null where shards may move. */
  private var routing: Array[Int] = _
  private var blocks: Array[UnsafeRowBlock] = _

  def run(): Unit = task.withTaskContext {
    task.inputBegins()
    if (task.spec.isFixed) {
      routing = task.routing
      blocks = Array.fill(routing.max + 1)(new UnsafeRowBlock)
    }
    inputs.indices.foreach { turn =>
      if (turn > 0) task.inlet.nextInput()
      read(task.turns.await(turn))
    }
    task.inputEnded()
  }

  private def read(index: Int): Unit = {
    val source = sources(index)
    val hash = inputs(index).hash
    val hashOf = UnsafeProjection.create(Seq(hash))
    while (source.hasNext) {
      val row = source.next()
      send(row, shards(hashOf(row).getInt(0)))
      rows += 1
      task.received(rows, task.inlet.bufferedBytes)
      if (motion != null) motion.afterRow(rows, task.inlet)
    }
    if (blocks != null) blocks.indices.foreach(flush)
  }

  private def send(row: UnsafeRow, shard: Int): Unit =
    if (routing == null) task.inlet.offer(row, shard)
    else {
      val lane = routing(shard)
      blocks(lane).append(row, shard)
      if (blocks(lane).isFull) flush(lane)
    }

  private def flush(lane: Int): Unit = if (blocks(lane).size > 0) {
    task.inlet.offer(blocks(lane), LaneId(lane))
    blocks(lane) = new UnsafeRowBlock
  }
}
