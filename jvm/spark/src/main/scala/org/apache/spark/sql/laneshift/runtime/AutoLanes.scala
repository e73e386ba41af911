package org.apache.spark.sql.laneshift.runtime

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.laneshift.spec.{ElasticSpec, OperatorKey}

import laneshift.lane.CoreShare

/** What a process knows of the operators whose lanes are left to laneshift (`spark.sql.laneshift.lanes=auto`). Nothing depends on it
  * but the number of lanes.
  */
private[runtime] final class AutoLanes(val cores: Cores, clock: () => Long = () => System.nanoTime()) {
  private val operators = new ConcurrentHashMap[OperatorKey, OperatorWork]

  import AutoLanes.waitedNs

  /** A task of a micro-batch begins; on its thread. None where shuffles do not tell what they hold. Where a partition's row-wise work
    * has gone apart, that has lanes of its own: for these cores stay idle, and what is left with the state is on one lane.
    */
  def begin(
      spec: ElasticSpec,
      partition: Int,
      inputs: Seq[RDD[_]],
      context: TaskContext
  ): Option[AutoBatch] = {
    val operator = operators.computeIfAbsent(
      spec.key,
      _ => new OperatorWork(cores.count, spec.options.maxLanes)
    )
    val attempt = StageAttempt(spec.batchId, context.stageId(), context.stageAttemptNumber())
    val lanes =
      if (operator.hasGoneApart(spec.rowWork)) Some(1)
      else
        operator.begin(
          attempt,
          partition,
          ShuffleSizes.of(inputs, spec.partitions),
          spec.operator.ranges,
          spec.slots,
          cores.tasksOf(attempt.stageId),
          cores.tasksBeside(attempt.stageId),
          clock()
        )
    lanes.map(new AutoBatch(operator, attempt, partition, clock() - waitedNs, _, clock))
  }

  def forget(runId: String): Unit = operators.keySet().removeIf(_.runId == runId)
}

private[runtime] object AutoLanes {

  /** How long this thread has waited for its turn on cores that it shares: no time of its partition's. */
  def waitedNs: Long = CoreShare.worker.fold(0L)(_.waitedNs)
}

/** One task of a partition whose lanes are left to laneshift.
  *
  * @param sinceNs when it began, by a clock that stands still while its thread waits for a turn
  * @param lanes those to begin with
  * @param clock which goes on while its thread waits
  */
private[runtime] final class AutoBatch(
    operator: OperatorWork,
    attempt: StageAttempt,
    partition: Int,
    sinceNs: Long,
    val lanes: Int,
    clock: () => Long
) {

  /** Whether what is left of the task is worth more lanes. */
  def isWorthMore(nowNs: Long): Boolean = operator.isWorthMore(attempt, partition, nowNs)

  /** The task is over; `lanes` if it had as many from its beginning to its end. */
  def over(context: TaskContext, lanes: Option[Int]): Unit =
    if (context.isFailed() || context.isInterrupted()) operator.failed(attempt, partition)
    else operator.ended(attempt, partition, lanes, clock() - AutoLanes.waitedNs - sinceNs)
}
