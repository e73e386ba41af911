package org.apache.spark.sql.laneshift.rescale

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.StageTasks
import org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.execution.streaming.RealTimeTrigger
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamExecution}
import org.apache.spark.sql.laneshift.spec.RangedNode

/** Slots that a rescale leaves to Real-time queries. Spark ends such a query if its batch begins and there are not enough for all of
  * its tasks at once, and takes from them those of every task of others, whether it runs or waits.
  */
private[rescale] object RealTimeSlots {

  /** Refuses one beside which a batch of some Real-time query of the application could not begin.
    *
    * @param now how many partitions the query has
    * @param slots of the application
    * @param beside tasks at a time of all rescales, this one's too
    */
  def require(query: MicroBatchExecution, now: Int, partitions: Int, slots: Int, beside: Int): Unit = {
    val others = active(query).filterNot(_ eq query)
    val own = if (isRealTime(query)) math.max(tasks(query, now, now), tasks(query, now, partitions)) else 0
    val all = own + others.map(tasks).sum
    if (all > 0 && all + beside > slots)
      throw new NotRescalable.Unfit(
        s"with $partitions partitions Real-time batches and the rescale would need slots for ${all + beside} tasks, " +
          s"$beside of them for the rescale (spark.sql.laneshift.rescale.cores), and there are $slots"
      )
  }

  /** So many tasks a take-over may have: all that there can be, or, where another Real-time query may begin a batch meanwhile, no more
    * than a batch of this query has.
    */
  def hurried(query: MicroBatchExecution, partitions: Int, context: SparkContext): Int = {
    val slots = math.max(1, StageTasks.slots(context))
    if (active(query).exists(_ ne query)) math.min(slots, partitions) else slots
  }

  /** Those of the application that have begun a batch. */
  private def active(beside: StreamExecution): Seq[MicroBatchExecution] =
    beside.sparkSession.sharedState.activeStreamingQueries.values().asScala.toSeq.collect {
      case q: MicroBatchExecution if q.isActive && isRealTime(q) && q.lastExecution != null => q
    }

  private def isRealTime(query: MicroBatchExecution) = query.trigger.isInstanceOf[RealTimeTrigger]

  private def tasks(query: MicroBatchExecution): Int = {
    val now = query.lastExecution.numStateStores
    tasks(query, now, now)
  }

  /** Of a Real-time batch, with `partitions` instead of `now`. */
  private def tasks(query: MicroBatchExecution, now: Int, partitions: Int): Int = {
    val plan = query.lastExecution.executedPlan
    val sources = plan.collect { case s: RealTimeStreamScanExec => s.inputPartitions.size }.sum
    val shuffles = plan.collect { case e: ShuffleExchangeLike => e.outputPartitioning.numPartitions }
    val elastic = plan.collect { case node: RangedNode => node }
    // Of stages with state that are not elastic each partition has a task.
    val others = math.max(0, shuffles.count(_ == now) - elastic.map(_.shuffles).sum)
    sources + shuffles.filter(_ != now).sum + others * partitions +
      elastic.map(_.fewestTasks(partitions)).sum
  }
}
