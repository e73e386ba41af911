package org.apache.spark.sql.laneshift.lane

import org.apache.spark.{InternalAccumulator, SparkContext, TaskContext}
import org.apache.spark.util.LongAccumulator

/** CPU time of threads that work for a task beside its own, as part of the task's `executorCpuTime`. When a task is over Spark sets that to
  * what the task's own thread has used, whatever it was before: so there is a count beside it, which becomes a second one of
  * the same name, and Spark adds up both. In this package because what an accumulator counts for is private to Spark.
  */
private[laneshift] object LaneCpu {
  private val Name = "laneshift: CPU time of lanes"

  /** A count for each task of an RDD with this in a field: it comes to the task with the RDD, as all accumulators do. */
  def of(sc: SparkContext): LongAccumulator = sc.longAccumulator(Name)

  private def counts(task: TaskContext): Seq[LongAccumulator] =
    task.taskMetrics().withExternalAccums(_.toList).collect {
      case count: LongAccumulator if count.name.contains(Name) => count
    }

  def add(task: TaskContext, ns: Long): Unit = if (ns > 0) counts(task).headOption.foreach(_.add(ns))

  /** When a task of Spark's begins: what is counted by its end is told as its CPU time. */
  def tellAtEnd(task: TaskContext): Unit = task.addTaskCompletionListener[Unit] { over =>
    val own = over.taskMetrics().nameToAccums(InternalAccumulator.EXECUTOR_CPU_TIME)
    counts(over).filterNot(_.isZero).foreach(_.metadata = own.metadata)
  }
}
