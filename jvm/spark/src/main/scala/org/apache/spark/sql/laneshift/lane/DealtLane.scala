package org.apache.spark.sql.laneshift.lane

import java.util.concurrent.ConcurrentLinkedQueue

import org.apache.spark.{Partition, SparkEnv, TaskContext}
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.internal.config.Python.PYTHON_UDF_PIPELINED_EXECUTION
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.laneshift.body.{LaneContext, RowsThrough, SharedPartition}

import laneshift.ids.LaneId
import laneshift.lane.Dealt
import laneshift.testing.{Fault, Faults}

/** A lane that works on deals, on one thread of the task's process, under a task context of its own.
  *
  * Whose outputs are whose: operators that go row by row have put out all that follows from a row before they ask for the next,
  * so outputs are those of the deal whose row was given last. Python's operators read rows ahead, but give one row for each, in
  * order: rows are counted as they go in and come out ([[DealsThrough]]).
  */
private[lane] final class DealtLane(
    task: DealtTask,
    override val lane: LaneId,
    newBody: () => RDD[InternalRow],
    split: Partition
) extends LaneContext {
  private val taskContext = new LaneTaskContext(TaskIdentity.of(task.context))
  private val twoThreads = SparkEnv.get.conf.get(PYTHON_UDF_PIPELINED_EXECUTION)
  private val out = new DealtOutput(task, lane, twoThreads)

  /** What reads ahead, in the order in which rows come through. */
  private var through = Vector.empty[DealsThrough]

  /** The deal of the row that was given last. */
  private var givenDeal = 0L
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
    val taken = task.deals.take(lane, answered = !twoThreads && through.forall(_.isEmpty))
    out.inputCame()
    taken match {
      case Dealt.Rows(number, rows) =>
        givenDeal = number
        block = rows.asInstanceOf[UnsafeRowBlock]
        at = 0
      case Dealt.Flush => restarting = true
      case Dealt.End => ended = true
    }
    block != null
  }

  override def throughReader(point: Int): RowsThrough = {
    while (through.size <= point) {
      val below = through.size - 1
      through :+= new DealsThrough(() => if (below < 0) givenDeal else through(below).deal)
    }
    through(point)
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
    failure.foreach(task.fail)
    task.deals.left(lane)
  }

  private def work(): Unit = {
    TaskContext.setTaskContext(taskContext.current)
    val body = newBody()
    var running = true
    while (running) {
      val outputs = body.iterator(split, taskContext.current)
      while (outputs.hasNext) {
        val row = outputs.next()
        out.add(row, if (through.isEmpty) givenDeal else through.last.deal)
      }
      out.flush()
      task.deals.answered(lane)
      if (restarting) {
        through = Vector.empty
        restarting = false
        taskContext.renew()
      } else running = false
    }
  }
}

/** Follows deals through an operator that reads rows ahead and gives one row for each, in order. One thread sees rows in, and one,
  * which may be another, sees them out.
  */
private[lane] final class DealsThrough(dealBelow: () => Long) extends RowsThrough {

  /** From which row on rows are of which deal. */
  private val begins = new ConcurrentLinkedQueue[DealsThrough.Begin]
  private var lastIn = -1L
  private var in = 0L
  private var out = 0L

  /** That of the row that came out last. */
  var deal = 0L

  def isEmpty: Boolean = in == out

  override def wentIn(): Unit = {
    val of = dealBelow()
    if (of != lastIn) {
      begins.add(DealsThrough.Begin(in, of))
      lastIn = of
    }
    in += 1
  }

  override def cameOut(): Unit = {
    var next = begins.peek()
    while (next != null && next.row <= out) {
      deal = if (Faults.isOn(Fault.OutputsOfNewestDeal)) lastIn else next.deal
      begins.poll()
      next = begins.peek()
    }
    out += 1
  }
}

private object DealsThrough {
  final case class Begin(row: Long, deal: Long)
}

/** Collects a lane's outputs in blocks, each of one deal. The lane's thread adds; whoever asks for the lane's rows says when it waits
  * for some: that is another one if Python's writer reads ahead on a thread of its own.
  */
private[lane] final class DealtOutput(task: DealtTask, lane: LaneId, twoThreads: Boolean) {
  private var block = new UnsafeRowBlock
  private var deal = 0L
  private var oldestNs = 0L
  private var idle = false

  /** What Python workers send back are rows of another kind. */
  private lazy val toUnsafe = UnsafeProjection.create(task.spec.outputs.toArray)

  def add(row: InternalRow, of: Long): Unit = {
    val unsafe = row match {
      case u: UnsafeRow => u
      case other => toUnsafe(other)
    }
    if (twoThreads) synchronized(append(unsafe, of)) else append(unsafe, of)
  }

  private def append(row: UnsafeRow, of: Long): Unit = {
    if (of != deal) {
      flush()
      deal = of
    }
    if (task.spec.realTime && block.size == 0) oldestNs = System.nanoTime()
    block.append(row, 0)
    if (block.isFull || (task.spec.realTime && (idle || System.nanoTime() - oldestNs > DealtOutput.LingerNs)))
      flush()
  }

  def inputWaits(): Unit = synchronized {
    flush()
    idle = twoThreads
  }

  def inputCame(): Unit = if (twoThreads) synchronized { idle = false }

  def flush(): Unit = synchronized {
    if (block.size > 0) {
      val full = block
      block = new UnsafeRowBlock
      task.deals.put(lane, deal, full)
    }
  }
}

private object DealtOutput {

  /** As of [[LaneOutput]]. */
  private val LingerNs = 500000L
}
