package org.apache.spark.sql.laneshift.lane

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.laneshift.body.{LaneContext, SharedPartition}

import laneshift.ids.LaneId
import laneshift.lane.Dealt

/** A lane that works on deals, on one thread of the task's process, under a task context of its own. What it puts out follows from the
  * rows of its deal: operators that go row by row have put out everything before they ask for more, others, Python's, after
  * their input has ended, which it then does after each deal.
  */
private[lane] final class DealtLane(
    task: DealtTask,
    override val lane: LaneId,
    newBody: () => RDD[InternalRow],
    split: Partition
) extends LaneContext {
  private val taskContext = task.newLaneContext()
  private val out = new LaneOutput(task.spec, task.deals.put(lane, _))
  private var block: UnsafeRowBlock = _
  private var at = 0
  private var ended = false
  @volatile private var restarting = false

  def counted: TaskMetrics = taskContext.metrics

  override def currentShard: Int = 0
  override def isRestarting: Boolean = restarting
  override def inputsEnded: Boolean = false
  override def perShard[T](operatorId: Long, write: T => Unit)(make: => T): IndexedSeq[T] = Vector(make)
  override def ownShards: Seq[Int] = Seq(0)
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

  // ---- the thread

  /** Begins. If it throws, nothing has begun. */
  def start(): Unit = task.threads.start(s"lane ${lane.value}")(run())

  private def run(): Unit = {
    var failure: Option[Throwable] = None
    try LaneContext.within(this)(work())
    catch { case error: Throwable => failure = Some(error) }
    // Listeners close iterators and report leaks: before the task may think that this lane is done.
    try taskContext.complete(failure)
    catch { case error: Throwable => failure = failure.orElse(Some(error)) }
    TaskContext.unset()
    failure.foreach(task.threads.fail)
    task.deals.left(lane)
  }

  private def work(): Unit = {
    TaskContext.setTaskContext(taskContext.current)
    val body = newBody()
    var running = true
    while (running) {
      val outputs = LaneBody.begin(body, split, taskContext.current, task.spec.usesPython)
      while (outputs.hasNext) out.add(outputs.next())
      out.flush()
      task.deals.answered(lane)
      if (restarting) {
        restarting = false
        taskContext.renew()
      } else running = false
    }
  }
}
