package org.apache.spark.sql.laneshift.lane

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.laneshift.body.SharedPartition

import laneshift.ids.LaneId
import laneshift.lane.Dealt

/** A lane that works on deals. What it puts out follows from the rows of its deal: operators that go row by row have put out
  * everything before they ask for more, others, Python's, after their input has ended, which it then does after each deal.
  */
private[lane] final class DealtLane(task: DealtTask, override val lane: LaneId) extends FedLane
    with OneShard {
  override val out = new LaneOutput(task.spec, task.deals.put(lane, _))
  private var block: UnsafeRowBlock = _
  private var at = 0
  private var ended = false
  @volatile private var restarting = false

  override def isRestarting: Boolean = restarting
  override def partition: Option[SharedPartition] = None

  override def input(index: Int): Iterator[InternalRow] = new Iterator[InternalRow] {
    private val row = new UnsafeRow(task.spec.inputs(index).fields)

    override def hasNext: Boolean = (block != null && at < block.size) || advance()

    override def next(): InternalRow = {
      if (!hasNext) throw new NoSuchElementException("the lane's input has ended")
      block.read(at, row)
      at += 1
      row
    }
  }

  private def advance(): Boolean = {
    if (ended || restarting) return false
    block = null
    out.inputWaits()
    val taken = task.deals.take(lane)
    out.inputCame()
    taken match {
      case Dealt.Rows(rows) =>
        block = rows.asInstanceOf[UnsafeRowBlock]
        at = 0
      case Dealt.Flush => restarting = true
      case Dealt.End => ended = true
    }
    block != null
  }

  override def bodyEnded(): Unit = {
    out.flush()
    task.deals.answered(lane)
    restarting = false
  }

  override def done(): Unit = task.deals.left(lane)
}
