package org.apache.spark.sql.laneshift.lane

import org.apache.spark.SparkEnv
import org.apache.spark.internal.config.Python.PYTHON_UDF_PIPELINED_EXECUTION
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.laneshift.spec.ElasticSpec

/** Collects a lane's outputs in blocks for the emitter. The lane's thread adds; whoever asks for the lane's rows says when it
  * waits for some: outputs then go on at once. That is the same thread, unless Python's writer reads ahead; then there is a
  * lock.
  *
  * @param put takes a block; may wait for room
  */
private[lane] final class LaneOutput(spec: ElasticSpec, put: UnsafeRowBlock => Unit) {
  private val twoThreads = SparkEnv.get.conf.get(PYTHON_UDF_PIPELINED_EXECUTION)
  private var block = new UnsafeRowBlock
  private var oldestNs = 0L
  private var idle = false

  private lazy val toUnsafe = UnsafeProjection.create(spec.outputs.toArray)

  /** What Python workers send back are rows of another kind. */
  def unsafe(row: InternalRow): UnsafeRow = row match {
    case u: UnsafeRow => u
    case other => toUnsafe(other)
  }

  def add(row: InternalRow): Unit =
    if (twoThreads) synchronized(append(unsafe(row))) else append(unsafe(row))

  private def append(row: UnsafeRow): Unit = {
    if (spec.realTime && block.size == 0) oldestNs = System.nanoTime()
    block.append(row, 0)
    if (block.isFull || (spec.realTime && (idle || System.nanoTime() - oldestNs > LaneOutput.LingerNs)))
      flush()
  }

  /** The lane is about to wait for rows: what is there goes on, and what comes meanwhile, too. */
  def inputWaits(): Unit = synchronized {
    flush()
    idle = twoThreads
  }

  def inputCame(): Unit = if (twoThreads) synchronized { idle = false }

  def flush(): Unit = synchronized {
    if (block.size > 0) {
      val full = block
      block = new UnsafeRowBlock
      put(full)
    }
  }
}

private object LaneOutput {

  /** In Real-time Mode no output waits longer than this for the rows behind it, while its lane is busy. */
  private val LingerNs = 500000L
}
