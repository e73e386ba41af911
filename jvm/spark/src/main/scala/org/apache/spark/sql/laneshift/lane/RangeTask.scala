package org.apache.spark.sql.laneshift.lane

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.apache.spark.{TaskContext, TaskContextImpl}
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.laneshift.spec.ElasticSpec

import laneshift.lane.{CoreShare, Outlet}

/** Several partitions during one Spark task (docs/handoff.md, section 13). Each is computed under a task context of its own, as if
  * Spark had started a task for it; what those have counted is the task's.
  *
  * Threads: the task's own thread puts out. In Real-time Mode each partition has a thread, in a micro-batch a few threads take one
  * after the other; together they work on as many cores as the task has. Every thread ends before the task does.
  *
  * @param partitions Spark's numbers of them
  * @param rows computes the so-manieth of them, on the thread and under the context that it is to be computed under
  */
private[laneshift] final class RangeTask(
    spec: ElasticSpec,
    context: TaskContext,
    partitions: Range,
    rows: (Int, TaskContext) => Iterator[InternalRow]
) {
  private val width = if (spec.realTime) partitions.size else math.min(partitions.size, RangeTask.AtATime)
  private val share = new CoreShare(RangeTask.cores(context))
  private val outlet = new Outlet[UnsafeRow](RangeTask.OutletBytes, () => new UnsafeRowBlock)
  private val next = new AtomicInteger
  private val identity = TaskIdentity.of(context)
  private val counted = new ConcurrentLinkedQueue[TaskMetrics]

  private val emitter = new Emitter(spec.outputs.size, context, outlet.take, () => finish())

  /** A task that takes only some of the rows succeeds all the same, and then its partitions have to commit. */
  private val threads: TaskThreads =
    new TaskThreads(s"task ${context.partitionId()}", context, outlet.fail, () => emitter.drain())
  threads.endBeforeTask()

  /** What the partitions put out, for the task's own thread: each one's rows in order. */
  def start(): Iterator[InternalRow] = {
    (0 until width).foreach { thread =>
      outlet.addProducer()
      threads.start(s"partitions $thread")(run())
    }
    emitter
  }

  private def run(): Unit = {
    CoreShare.within(share) {
      var index = next.getAndIncrement()
      while (index < partitions.size) {
        compute(index)
        index = next.getAndIncrement()
      }
    }
    outlet.producerDone()
  }

  private def compute(index: Int): Unit = {
    val own = LaneTaskContext.of(
      identity.copy(partitionId = partitions(index), numPartitions = spec.partitions),
      context,
      threads
    )
    val failure = own.run(putOut(rows(index, own.current)))
    counted.add(own.metrics)
    failure.foreach { error =>
      tellOfFetch(own.current)
      throw error
    }
  }

  /** A Real-time query's rows go on one by one: nobody here knows when the partition waits for its next one. */
  private def putOut(rows: Iterator[InternalRow]): Unit = {
    val out = new LaneOutput(spec, block => CoreShare.waiting(outlet.put(block)))
    if (spec.realTime) rows.foreach { row =>
      val unsafe = out.unsafe(row)
      CoreShare.waiting(outlet.put(unsafe, unsafe.getSizeInBytes))
    }
    else {
      rows.foreach(out.add)
      out.flush()
    }
  }

  /** Spark asks the task's own context whether it failed for want of a shuffle's rows, and makes them again if so. */
  private def tellOfFetch(own: TaskContextImpl): Unit =
    own.fetchFailed.foreach(context.setFetchFailed)

  /** Every partition has put out everything. */
  private def finish(): Unit = {
    threads.join()
    LaneAccumulators.add(counted.asScala.toSeq, context)
  }
}

private[laneshift] object RangeTask {

  /** So many partitions of a micro-batch's task are open at a time: while one waits for its files, others go on. */
  private val AtATime = 4

  /** Outputs that may wait for the task's thread, of all its partitions. */
  private val OutletBytes = 1L << 20

  /** The cores that Spark has given the task. */
  private def cores(context: TaskContext): Int = math.max(1, context.cpuAmount().intValue)
}
