package org.apache.spark.sql.laneshift.lane

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.StateStoreTracking
import org.apache.spark.sql.laneshift.body.LaneContext
import org.apache.spark.sql.laneshift.spec.ElasticSpec

import laneshift.lane.{CoreShare, RowBlock}

/** What lanes or partitions put out, for the thread that computes them.
  *
  * @param take the next block, or None once every lane is done; looks around every so many milliseconds of waiting
  * @param finish every block has been taken
  */
private[lane] final class Emitter(
    fields: Int,
    context: TaskContext,
    take: (Long, () => Unit) => Option[RowBlock[UnsafeRow]],
    finish: () => Unit
) extends Iterator[InternalRow] {
  private val row = new UnsafeRow(fields)
  private var block: UnsafeRowBlock = _
  private var at = 0
  private var done = false

  override def hasNext: Boolean = {
    while (!done && (block == null || at >= block.size))
      CoreShare.waiting(take(Emitter.PollMs, () => context.killTaskIfInterrupted())) match {
        case Some(next) =>
          block = next.asInstanceOf[UnsafeRowBlock]
          at = 0
        case None =>
          done = true
          finish()
      }
    !done
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("no more outputs")
    block.read(at, row)
    at += 1
    row
  }

  /** Lets the lanes come to their end. */
  def drain(): Unit = while (hasNext) at = block.size
}

private object Emitter {

  /** How often the emitter looks whether its task was killed, while no output comes. */
  private val PollMs = 100L
}

/** Runs the only lane on the task's own thread; goes over to threads once another lane is wanted. */
private[lane] final class DirectThenThreaded(
    task: DirectTask,
    spec: ElasticSpec,
    source: Iterator[InternalRow],
    newBody: () => RDD[InternalRow],
    split: Partition,
    context: TaskContext
) extends Iterator[InternalRow] {
  private val lane = new DirectLane(task.directPartition, source, spec.readsAhead)
  private var threaded = false
  private var over = false
  private var now: Iterator[InternalRow] = {
    task.beginDirect(lane)
    LaneContext.within(lane)(newBody().iterator(split, context))
  }

  override def hasNext: Boolean =
    if (over || now.hasNext) !over
    else if (threaded) end()
    else if (lane.isRestarting) {
      threaded = true
      StateStoreTracking.clear()
      LaneAccumulators.forgetSeal(context.taskMetrics(), spec.onceMetrics)
      now = task.goThreaded(lane)
      now.hasNext || end()
    } else {
      task.endDirect(lane)
      end()
    }

  private def end(): Boolean = {
    over = true
    false
  }

  override def next(): InternalRow = now.next()
}
