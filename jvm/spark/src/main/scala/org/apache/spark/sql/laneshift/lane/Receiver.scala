package org.apache.spark.sql.laneshift.lane

import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.laneshift.body.ShardOfHash

/** Reads the partition's inputs, one after the other, and sends each row to its shard's lane. */
private[lane] final class Receiver(task: PartitionTask, sources: Seq[Iterator[UnsafeRow]]) {
  private val inputs = task.spec.inputs
  private val shards = new ShardOfHash(task.spec.partitions, task.spec.options.shards)
  private val motion = task.home.receiverMotion
  private var rows = 0L

  def run(): Unit = task.withTaskContext {
    task.inputBegins()
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
      task.inlet.offer(row, shards(hashOf(row).getInt(0)))
      rows += 1
      task.received(rows, task.inlet.bufferedBytes)
      if (motion != null) motion.afterRow(rows, task.inlet)
    }
  }
}
