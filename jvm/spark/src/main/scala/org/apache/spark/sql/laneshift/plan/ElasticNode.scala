package org.apache.spark.sql.laneshift.plan

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.StageTasks
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamExecution}
import org.apache.spark.sql.laneshift.conf.LaneshiftConf
import org.apache.spark.sql.laneshift.runtime.ElasticRDD
import org.apache.spark.sql.laneshift.spec.{ElasticOptions, ElasticSpec}
import org.apache.spark.sql.laneshift.wire.RpcBytes
import org.apache.spark.sql.types.TimestampType

/** The top of a region that runs on lanes: what its child, which ends at [[LaneInputExec]]s, computes is computed by as many copies
  * of it as the partition has lanes. The copies are made of bytes that are written here, once (design fact 3).
  */
private[plan] trait ElasticNode extends UnaryExecNode {
  def options: ElasticOptions

  /** Its number among the query's elastic operators. */
  def operatorId: Long

  override def nodeName: String = "Elastic"

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "lanes" -> SQLMetrics.createMetric(sparkContext, "lanes"),
    "handoffs" -> SQLMetrics.createMetric(sparkContext, "handoffs of shards"),
    "pauseTime" -> SQLMetrics.createNanoTimingMetric(sparkContext, "time shards were paused by handoffs"),
    "rowsIn" -> SQLMetrics.createMetric(sparkContext, "number of rows received"),
    "busiestLaneRows" -> SQLMetrics.createMetric(sparkContext, "number of rows of the busiest lane"),
    "queuePeak" -> SQLMetrics.createSizeMetric(sparkContext, "most bytes queued for lanes")
  )

  protected def lanesInWords: String =
    s"lanes ${options.lanes.fold("auto")(_.toString)} of at most ${options.maxLanes}"

  /** One stage per batch is one query's: its id is in the local properties that the stream's thread has set. */
  protected def queryId: String =
    Option(sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY)).getOrElse("")

  protected def batchId: Option[Long] =
    Option(sparkContext.getLocalProperty(MicroBatchExecution.BATCH_ID_KEY)).map(_.toLong)

  protected def sentAt: Option[Int] = conf.getConf(LaneshiftConf.LatencyColumn).map { name =>
    output.indexWhere(a => conf.resolver(a.name, name) && a.dataType == TimestampType)
  }.filter(_ >= 0)

  protected def slots: Int = StageTasks.slots(sparkContext)

  /** The nearest elastic operators that feed these. */
  protected def upstream(plans: Seq[SparkPlan]): Seq[Long] =
    plans.flatMap(ElasticNode.nearestBelow).map(_.operatorId).distinct

  protected def elastic(
      inputs: Seq[RDD[InternalRow]],
      body: RDD[InternalRow],
      spec: ElasticSpec
  ): RDD[InternalRow] = {
    ElasticNode.resolve(body)
    new ElasticRDD(inputs, body, RpcBytes.of(body), spec, metrics)
  }
}

private[plan] object ElasticNode {
  private def nearestBelow(plan: SparkPlan): Seq[ElasticNode] = plan match {
    case e: ElasticNode => Seq(e)
    case other => other.children.flatMap(nearestBelow)
  }

  /** Forces what an RDD works out lazily on the driver: it would be missing after the body is read back. */
  def resolve(rdd: RDD[_]): Unit = {
    val seen = ConcurrentHashMap.newKeySet[Integer]()
    def visit(r: RDD[_]): Unit = if (seen.add(r.id)) {
      r.partitions
      r.dependencies.foreach(d => visit(d.rdd))
    }
    visit(rdd)
  }
}
