package org.apache.spark.sql.laneshift.plan

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, Partitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamExecution}
import org.apache.spark.sql.laneshift.conf.LaneshiftConf
import org.apache.spark.sql.laneshift.driver.DriverState
import org.apache.spark.sql.laneshift.runtime.ElasticRDD
import org.apache.spark.sql.laneshift.spec.{
  ElasticOptions,
  ElasticSpec,
  HandoffMode,
  InputSpec,
  OperatorKey,
  OperatorSpec,
  StateKey,
  StateMetrics,
  StateRead
}
import org.apache.spark.sql.laneshift.wire.RpcBytes
import org.apache.spark.sql.types.TimestampType

import laneshift.testing.{Fault, Faults}

/** The top of an elastic region: runs `child`, which ends at [[LaneInputExec]]s, on as many lanes as the partition has.
  *
  * The child's RDD is serialised here, once, and becomes a copy per lane on the executor (design fact 3): state stores,
  * metrics and generated code are then never shared by threads.
  */
case class ElasticExec(
    child: SparkPlan,
    handoff: HandoffMode,
    realTime: Boolean,
    stateKeys: Map[Long, StateKey],
    options: ElasticOptions
) extends UnaryExecNode {
  override def nodeName: String = "Elastic"
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning

  /** Outputs of several lanes come in no particular order between keys. */
  override def outputOrdering: Seq[SortOrder] = Nil

  override def simpleString(maxFields: Int): String = {
    val lanes = options.lanes.fold("auto")(_.toString)
    s"$nodeName [shards ${options.shards}, lanes $lanes of at most ${options.maxLanes}, handoff ${handoff.name}]"
  }

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "lanes" -> SQLMetrics.createMetric(sparkContext, "lanes"),
    "handoffs" -> SQLMetrics.createMetric(sparkContext, "handoffs of shards"),
    "pauseTime" -> SQLMetrics.createNanoTimingMetric(sparkContext, "time shards were paused by handoffs"),
    "rowsIn" -> SQLMetrics.createMetric(sparkContext, "number of rows received"),
    "busiestLaneRows" -> SQLMetrics.createMetric(sparkContext, "number of rows of the busiest lane"),
    "queuePeak" -> SQLMetrics.createSizeMetric(sparkContext, "most bytes queued for lanes")
  )

  /** Throws if this could not be executed, as far as a plan can tell. */
  def check(): Unit = { spec; () }

  private def inputs: Seq[LaneInputExec] =
    Elasticity.collectRegion(child).collect { case l: LaneInputExec => l }.sortBy(_.index)

  override protected def doExecute(): RDD[InternalRow] = QueryStores.within(conf) {
    val body = child.execute()
    ElasticExec.resolve(body)
    new ElasticRDD(inputs.map(_.child.execute()), body, RpcBytes.of(body), spec, metrics)
  }

  private def writers: Seq[StateStoreWriter] = Elasticity.collectRegion(child).collect {
    case w: StateStoreWriter if w.stateInfo.isDefined => w
  }

  /** That of the region's topmost stateful operator. */
  private def operatorId: Long = writers.head.getStateInfo.operatorId

  private def inputSpec(input: LaneInputExec): InputSpec = {
    val hashed = input.outputPartitioning.asInstanceOf[HashPartitioning].expressions
    val hash = BindReferences.bindReference[Expression](new CollationAwareMurmur3Hash(hashed), input.output)
    InputSpec(input.output.size, hash, if (handoff == HandoffMode.BetweenBatches) reads(input) else Nil)
  }

  /** A key that is made on the way from the input is not foretold. */
  private def reads(input: LaneInputExec): Seq[StateRead] =
    for {
      writer <- writers
      keys <- Elasticity.keysByInput(writer).toSeq.flatten
      if keys.forall(key => key.deterministic && key.references.subsetOf(input.outputSet))
    } yield StateRead(
      writer.getStateInfo.operatorId,
      keys.map(BindReferences.bindReference[Expression](_, input.output))
    )

  private def spec: ElasticSpec = {
    val inputs = this.inputs
    val info = writers.head.getStateInfo
    // One stage per batch is one query's: its id is in the local properties that the stream's thread has set.
    val queryId = Option(sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY)).getOrElse("")
    val batchId = Option(sparkContext.getLocalProperty(MicroBatchExecution.BATCH_ID_KEY)).map(_.toLong)
    val key = OperatorKey(queryId, info.queryRunId.toString, operatorId)
    ElasticSpec(
      OperatorSpec(
        key,
        writers.head.shortName,
        batchId.getOrElse(info.storeVersion),
        realTime,
        handoff,
        inputs.head.outputPartitioning.numPartitions,
        options,
        inputs.flatMap(i => ElasticExec.nearestBelow(i.child)).map(_.operatorId).distinct,
        DriverState.get.exists(_.memories.knows(key))
      ),
      inputs.map(inputSpec),
      output.map(_.dataType),
      stateKeys,
      idsOf(ElasticExec.oncePerStore: _*),
      StateMetrics(idsOf("numTotalStateRows"), idsOf("stateMemory"), idsOf("rocksdbSstFileSize")),
      sentAt,
      sparkContext.maxNumConcurrentTasks(sparkContext.resourceProfileManager.defaultResourceProfile)
    )
  }

  /** Ids of the metrics that the region's stateful operators have by these names. */
  private def idsOf(names: String*): Set[Long] =
    writers.flatMap(w => names.flatMap(w.metrics.get)).map(_.id).toSet

  private def sentAt: Option[Int] = conf.getConf(LaneshiftConf.LatencyColumn).map { name =>
    output.indexWhere(a => conf.resolver(a.name, name) && a.dataType == TimestampType)
  }.filter(_ >= 0)

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

object ElasticExec {

  /** Metrics that count stores or what is declared in each: the same from every lane. */
  private def oncePerStore: Seq[String] =
    "numStateStoreInstances" +: (if (Faults.isOn(Fault.VariablesPerLane)) Nil else Declared)

  private val Declared = for {
    kind <- Seq("Value", "List", "Map")
    ttl <- Seq("", "WithTTL")
  } yield s"num${kind}State${ttl}Vars"

  private def nearestBelow(plan: SparkPlan): Seq[ElasticExec] = plan match {
    case e: ElasticExec => Seq(e)
    case other => other.children.flatMap(nearestBelow)
  }

  /** Forces what an RDD works out lazily on the driver: it would be missing after the body is read back. */
  private def resolve(rdd: RDD[_]): Unit = {
    val seen = ConcurrentHashMap.newKeySet[Integer]()
    def visit(r: RDD[_]): Unit = if (seen.add(r.id)) {
      r.partitions
      r.dependencies.foreach(d => visit(d.rdd))
    }
    visit(rdd)
  }
}
