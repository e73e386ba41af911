package org.apache.spark.sql.laneshift.plan

import org.apache.spark.ShuffleDependency
import org.apache.spark.SparkContext
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.StageTasks
import org.apache.spark.sql.execution.{CollectMetricsExec, SparkPlan}
import org.apache.spark.sql.execution.command.DataWritingCommandExec
import org.apache.spark.sql.execution.datasources.v2.V2TableWriteExec
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec
import org.apache.spark.sql.laneshift.spec.TaskWish

/** In how many tasks the state partitions of elastic operators are computed. */
private[plan] object TaskCounts {

  /** The plan, whose elastic operators know why each of their partitions needs a task of its own, if that is so, and how many of
    * them there are from the plan's top down to each.
    */
  def mark(plan: SparkPlan): SparkPlan = mark(plan, None, 1)

  private def mark(plan: SparkPlan, ungrouped: Option[String], regions: Int): SparkPlan = plan match {
    case e: ElasticExec =>
      e.copy(child = mark(e.child, None, regions + 1), ungrouped = ungrouped, regions = regions)
    case e: Exchange => e.mapChildren(mark(_, None, regions))
    case other =>
      val why = ungrouped.orElse(Option.when(!isBlind(other))(
        s"${other.nodeName} above it may work on whole partitions"
      ))
      other.mapChildren(mark(_, why, regions))
  }

  /** Whether it makes no difference to an operator which rows come in one partition. */
  private def isBlind(plan: SparkPlan): Boolean = plan match {
    case _: V2TableWriteExec | _: DataWritingCommandExec => true
    case _: CollectMetricsExec | _: EventTimeWatermarkExec => true
    case other => Elasticity.isRowWise(other)
  }

  /** Tasks for `partitions` partitions.
    *
    * @param inputs the shuffles that the operator reads
    * @param regions elastic operators from the plan's top down to this one
    */
  def of(wish: TaskWish, partitions: Int, realTime: Boolean, inputs: Seq[RDD[_]], regions: Int): Int =
    wish match {
      case TaskWish.Stock => partitions
      case TaskWish.Exactly(tasks) => math.min(tasks, partitions)
      case TaskWish.UpTo(tasks) if !realTime => math.min(tasks, partitions)
      case TaskWish.UpTo(tasks) => math.min(tasks, suiting(partitions, realTime, inputs, regions))
      case TaskWish.Auto => suiting(partitions, realTime, inputs, regions)
    }

  /** As many as the cluster's slots are for. */
  private def suiting(partitions: Int, realTime: Boolean, inputs: Seq[RDD[_]], regions: Int): Int = {
    val sc = inputs.head.sparkContext
    val most = if (realTime) inRealTime(sc, inputs, regions) else TaskCounts.Waves * StageTasks.slots(sc)
    math.max(1, math.min(partitions, most))
  }

  /** A Real-time query needs a slot for each task of all its stages at once: the operator's part of those that nobody has. */
  private def inRealTime(sc: SparkContext, inputs: Seq[RDD[_]], regions: Int): Int =
    (StageTasks.slots(sc) - StageTasks.outstanding(sc) - tasksBelow(inputs)) / regions

  /** Tasks of the stages that feed an operator. */
  private def tasksBelow(inputs: Seq[RDD[_]]): Int = {
    val met = scala.collection.mutable.Set.empty[Int]
    def below(rdd: RDD[_]): Int =
      if (!met.add(rdd.id)) 0
      else rdd.dependencies.map {
        case s: ShuffleDependency[_, _, _] => s.rdd.getNumPartitions + below(s.rdd)
        case other => below(other.rdd)
      }.sum
    inputs.map(below).sum
  }

  /** In micro-batches, so many tasks for each slot: Spark gives the next one to whoever is done first. */
  private val Waves = 2
}
