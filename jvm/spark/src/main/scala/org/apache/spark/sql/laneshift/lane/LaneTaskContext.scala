package org.apache.spark.sql.laneshift.lane

import java.util.Properties
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.{SparkEnv, TaskContext, TaskContextImpl, TaskKilledException}
import org.apache.spark.api.python.PythonRunner
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.memory.{MemoryConsumer, TaskMemoryManager}
import org.apache.spark.resource.ResourceInformation
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOpStateStoreCheckpointInfo
import org.apache.spark.sql.execution.streaming.state.StateStoreTracking
import org.apache.spark.util.{AccumulatorV2, CollectionAccumulator}

import laneshift.lane.CoreShare

/** What a task says of itself: enough for another context of the same task, also in another process. */
private[laneshift] final case class TaskIdentity(
    stageId: Int,
    stageAttemptNumber: Int,
    partitionId: Int,
    taskAttemptId: Long,
    attemptNumber: Int,
    numPartitions: Int,
    localProperties: Properties,
    cpuAmount: BigDecimal,
    resources: Map[String, ResourceInformation]
)

private[laneshift] object TaskIdentity {
  def of(task: TaskContext): TaskIdentity = TaskIdentity(
    task.stageId(),
    task.stageAttemptNumber(),
    task.partitionId(),
    task.taskAttemptId(),
    task.attemptNumber(),
    task.numPartitions(),
    task.getLocalProperties,
    task.cpuAmount(),
    task.resources()
  )
}

/** The task context of one lane: the task's identity, but a memory account, metrics and listeners of its own. A lane's memory
  * consumer thus never spills another lane's, and two lanes never add to one accumulator.
  *
  * A lane that restarts goes on under a new one, with the same metrics: what its body had from Spark, memory and listeners,
  * ends with the body, not with the batch.
  *
  * @param whyKilled why what the lane does is of no use any more, if it is so. Asked on any thread: Spark ends a Python worker
  *   whose function does not return, of a task that it takes for killed
  */
private[laneshift] final class LaneTaskContext(task: TaskIdentity, whyKilled: () => Option[String]) {
  val metrics: TaskMetrics = TaskMetrics.empty
  private var memory: TaskMemoryManager = _
  private var context: TaskContextImpl = _
  begin()

  def current: TaskContextImpl = context

  private def begin(): Unit = {
    memory = new TaskMemoryManager(SparkEnv.get.memoryManager, LaneTaskContext.nextAccount()) {
      // Who waits for memory that another partition of the task has must not keep the turn in which that one gives it back.
      override def acquireExecutionMemory(required: Long, consumer: MemoryConsumer): Long =
        CoreShare.waiting(super.acquireExecutionMemory(required, consumer))
    }
    context = new TaskContextImpl(
      task.stageId,
      task.stageAttemptNumber,
      task.partitionId,
      task.taskAttemptId,
      task.attemptNumber,
      task.numPartitions,
      memory,
      task.localProperties,
      SparkEnv.get.metricsSystem,
      metrics,
      task.cpuAmount,
      task.resources
    ) {
      override def getKillReason(): Option[String] = super.getKillReason().orElse(whyKilled())
      override def isInterrupted(): Boolean = getKillReason().isDefined
      override def killTaskIfInterrupted(): Unit =
        getKillReason().foreach(reason => throw new TaskKilledException(reason))
    }
  }

  /** Runs `body` on this thread under this context, and then its completion listeners: they close iterators and report leaks and
    * state. Gives back what either has thrown, if it has: nobody may think before that what runs here is done.
    */
  def run(body: => Unit): Option[Throwable] = {
    var failure = Option.empty[Throwable]
    def trying(step: => Unit): Unit =
      try step
      catch { case error: Throwable => failure = failure.orElse(Some(error)) }
    trying {
      TaskContext.setTaskContext(context)
      body
    }
    trying(complete(failure))
    TaskContext.unset()
    StateStoreTracking.clear()
    failure
  }

  /** Runs the completion listeners of the body that has ended and gives its memory back. */
  def complete(error: Option[Throwable]): Unit =
    try {
      error.foreach(context.markTaskFailed)
      context.markTaskCompleted(error)
    } finally memory.cleanUpAllAllocatedMemory()

  /** The same for a body that is followed by another, which the lane's thread then runs under the new context. */
  def renew(): Unit = {
    complete(None)
    // Whoever watches a Python worker for a task does so until two seconds after the body: the next one, with the same worker,
    // would be watched by nobody.
    PythonRunner.runningMonitorThreads.removeIf(_._2 == task.taskAttemptId)
    begin()
    TaskContext.setTaskContext(context)
  }
}

private[laneshift] object LaneTaskContext {

  /** For a lane or a partition of `task` on one of its `threads`. */
  def of(identity: TaskIdentity, task: TaskContext, threads: TaskThreads): LaneTaskContext =
    new LaneTaskContext(identity, () => task.getKillReason().orElse(Option(threads.failure).map(_.toString)))

  /** Memory accounts are told apart by task attempt id; Spark's own are never negative. */
  private val accounts = new AtomicLong(-1L)
  private def nextAccount(): Long = accounts.getAndDecrement()
}

/** Adds the lanes' accumulators up into the Spark task's, once, after every lane has ended. */
private[laneshift] object LaneAccumulators {

  def of(metrics: TaskMetrics): Seq[AccumulatorV2[_, _]] = metrics.withExternalAccums(_.toList)

  /** Forgets what a body that is to be restarted has said of things that count once per store. */
  def forgetSeal(metrics: TaskMetrics, onceMetrics: Set[Long]): Unit =
    of(metrics).foreach { acc =>
      if (onceMetrics(acc.id)) acc.reset() else dropSealed(acc)
    }

  /** @param elsewhere what remote lanes have counted; copies that cannot be reported by themselves */
  def merge(
      lanes: Seq[TaskMetrics],
      elsewhere: Seq[AccumulatorV2[_, _]],
      task: TaskContext,
      onceMetrics: Set[Long]
  ): Unit = {
    val merged = sums(lanes, onceMetrics)
    val byId = merged.map(acc => acc.id -> acc).toMap
    for {
      acc <- elsewhere
      sum <- byId.get(acc.id) if !onceMetrics(acc.id)
    } sum.merge(acc.asInstanceOf[AccumulatorV2[Any, Any]])
    merged.foreach(dropSealed)
    tell(task, merged)
    lanes.foreach { metrics =>
      task.taskMetrics().incMemoryBytesSpilled(metrics.memoryBytesSpilled)
      task.taskMetrics().incDiskBytesSpilled(metrics.diskBytesSpilled)
      task.taskMetrics().incPeakExecutionMemory(metrics.peakExecutionMemory)
    }
  }

  /** One accumulator for each id: of those in `once` that which has counted first. */
  private def sums(all: Seq[TaskMetrics], once: Set[Long]): Seq[AccumulatorV2[Any, Any]] = {
    val merged = mutable.LinkedHashMap.empty[Long, AccumulatorV2[Any, Any]]
    all.foreach(metrics =>
      of(metrics).foreach { acc =>
        val a = acc.asInstanceOf[AccumulatorV2[Any, Any]]
        merged.get(a.id) match {
          case None => merged(a.id) = a
          case Some(sum) if once(a.id) => if (sum.isZero) sum.merge(a)
          case Some(sum) => sum.merge(a)
        }
      }
    )
    merged.values.toSeq
  }

  /** Adds up what partitions of one task have counted, each as if it had been a task: once, after they have ended. */
  def add(partitions: Seq[TaskMetrics], task: TaskContext): Unit = {
    partitions.foreach { metrics =>
      task.taskMetrics().internalAccums.zip(metrics.internalAccums).foreach { case (sum, more) =>
        sum.asInstanceOf[AccumulatorV2[Any, Any]].merge(more.asInstanceOf[AccumulatorV2[Any, Any]])
      }
    }
    tell(task, sums(partitions, Set.empty))
  }

  /** Of several accumulators of one id Spark's listeners take the task's last one for all of it. */
  private def tell(task: TaskContext, counted: Seq[AccumulatorV2[Any, Any]]): Unit = {
    val known = of(task.taskMetrics()).map(acc => acc.id -> acc.asInstanceOf[AccumulatorV2[Any, Any]]).toMap
    counted.foreach(acc => known.get(acc.id).fold(task.registerAccumulator(acc))(_.merge(acc)))
  }

  /** Replaces what the lanes have reported of an operator's stores by what that says together. */
  private def dropSealed(acc: AccumulatorV2[_, _]): Unit = acc match {
    case list: CollectionAccumulator[_] =>
      val infos = list.value.asScala.toList.collect { case i: StatefulOpStateStoreCheckpointInfo => i }
      if (infos.exists(CheckpointReports.isMarked)) {
        val all = list.asInstanceOf[CollectionAccumulator[Any]]
        all.reset()
        CheckpointReports.together(infos).foreach(all.add)
      }
    case _ => ()
  }
}
