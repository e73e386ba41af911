package org.apache.spark.sql.laneshift.plan

import org.apache.spark.ShuffleDependency
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.StageTasks
import org.apache.spark.sql.execution.{CollectMetricsExec, SparkPlan}
import org.apache.spark.sql.execution.command.DataWritingCommandExec
import org.apache.spark.sql.execution.datasources.v2.V2TableWriteExec
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec
import org.apache.spark.sql.laneshift.spec.TaskWish
import org.apache.spark.util.Utils

/** In how many tasks the state partitions of elastic operators are computed. */
private[plan] object TaskCounts {

  /** The plan, whose elastic operators know why each of their partitions needs or keeps a task of its own, if that is so, and how
    * many of them there are from the plan's top down to each.
    */
  def mark(plan: SparkPlan): SparkPlan = mark(plan, None, 1)

  private def mark(plan: SparkPlan, ungrouped: Option[Ungrouped], regions: Int): SparkPlan = plan match {
    case e: ElasticExec =>
      val own = ungrouped.orElse(byPython(Elasticity.collectRegion(e.child))).orElse(byDynamicAllocation(e))
      e.copy(
        child = mark(e.child, None, regions + 1),
        ungrouped = own.filter(_.always || !e.realTime),
        regions = regions
      )
    case e: Exchange => e.mapChildren(mark(_, None, regions))
    case other =>
      val why = ungrouped.filter(_.always).orElse(byWholePartitions(other)).orElse(ungrouped).orElse(byPython(
        Seq(other)
      ))
      other.mapChildren(mark(_, why, regions))
  }

  private def byWholePartitions(above: SparkPlan): Option[Ungrouped] =
    Option.when(!isBlind(above))(
      Ungrouped(s"${above.nodeName} above it may work on whole partitions", always = true)
    )

  /** Several partitions of a micro-batch's task are open at a time, each with worker processes of its own: memory that stock Spark
    * does not take.
    */
  private def byPython(nodes: Seq[SparkPlan]): Option[Ungrouped] =
    Option.when(Elasticity.usesPython(nodes))(
      Ungrouped("functions in Python have a process for each partition", always = false)
    )

  /** Spark asks for executors by the tasks that wait. */
  private def byDynamicAllocation(plan: SparkPlan): Option[Ungrouped] =
    Option.when(Utils.isDynamicAllocationEnabled(plan.session.sparkContext.conf))(
      Ungrouped("Spark's dynamic allocation counts them", always = false)
    )

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

  /** As many as the cluster's slots are for; a cluster none of whose executors is there yet has none. A micro-batch counts
    * executors, too, that are on their way: it may be a long one.
    */
  private def suiting(partitions: Int, realTime: Boolean, inputs: Seq[RDD[_]], regions: Int): Int = {
    val sc = inputs.head.sparkContext
    val slots = StageTasks.slots(sc)
    if (realTime) {
      // A slot for each task of all the query's stages at once: the operator's part of those that nobody has.
      val free = slots - StageTasks.outstanding(sc) - tasksBelow(inputs)
      math.max(1, math.min(partitions, free / regions))
    } else if (slots == 0) partitions
    else math.min(partitions.toLong, TaskCounts.Waves * math.max(slots, StageTasks.asked(sc))).toInt
  }

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

  /** In micro-batches, so many tasks for each slot: Spark gives the next one to whoever is done first, and other stages' tasks wait
    * for a part of a batch only.
    */
  private val Waves = 4L
}

/** Why each partition has a task of its own.
  *
  * @param always whatever was asked for; otherwise only if that is left to laneshift
  */
private[plan] final case class Ungrouped(why: String, always: Boolean)
