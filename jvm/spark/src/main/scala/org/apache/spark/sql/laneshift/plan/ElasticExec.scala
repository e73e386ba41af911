package org.apache.spark.sql.laneshift.plan

import scala.util.Random
import scala.util.hashing.MurmurHash3

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, Partitioning, UnknownPartitioning}
import org.apache.spark.sql.catalyst.streaming.InternalOutputModes
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.{HashAggregateExec, ObjectHashAggregateExec}
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  SessionWindowStateStoreSaveExec,
  StatefulOperatorsUtils,
  StateStoreSaveExec,
  StateStoreWriter
}
import org.apache.spark.sql.laneshift.driver.Run
import org.apache.spark.sql.laneshift.rescale.Checkpoint
import org.apache.spark.sql.laneshift.runtime.TaskRangeRDD
import org.apache.spark.sql.laneshift.spec.{
  ElasticOptions,
  ElasticSpec,
  HandoffMode,
  InputSpec,
  OperatorKey,
  OperatorSpec,
  RangedNode,
  RowWork,
  StateKey,
  StateMetrics,
  StateRead,
  TaskWish
}
import org.apache.spark.sql.laneshift.wire.RpcBytes

/** The top of an elastic region: runs `child`, which ends at [[LaneInputExec]]s, on as many lanes as the partition has.
  *
  * The child's RDD is serialised here, once, and becomes a copy per lane on the executor (design fact 3): state stores,
  * metrics and generated code are then never shared by threads.
  *
  * @param run of the query; on the driver only
  * @param ungrouped why each partition has a task of its own, if it does
  * @param regions elastic operators from the plan's top down to this one
  * @param rowWork where the row-wise work above its state is done
  */
case class ElasticExec(
    child: SparkPlan,
    handoff: HandoffMode,
    realTime: Boolean,
    stateKeys: Map[Long, StateKey],
    options: ElasticOptions,
    @transient run: Run,
    ungrouped: Option[Ungrouped] = None,
    regions: Int = 1,
    rowWork: RowWork = RowWork.Fixed
) extends ElasticNode
    with RangedNode {
  override def output: Seq[Attribute] = child.output

  /** Who reads the frame of a batch takes it for that of the rows, once these are there: a body of `foreachBatch` joins by it. */
  override def outputPartitioning: Partitioning =
    if (tasks < partitions) UnknownPartitioning(tasks) else child.outputPartitioning

  /** Of the rows that were made last; all partitions before. */
  @transient @volatile private var tasks = Int.MaxValue

  /** Outputs of several lanes come in no particular order between keys. */
  override def outputOrdering: Seq[SortOrder] = Nil

  override def simpleString(maxFields: Int): String =
    s"$nodeName [shards ${options.shards}, $lanesInWords$elsewhereInWords, handoff ${handoff.name}$tasksInWords$rescaleInWords]"

  /** What is wanted as the plan is looked at; a snapshot says what is there. */
  private def elsewhereInWords: String = run.elsewhere(operatorId).toSeq.sorted
    .map { case (executor, lanes) => s" + $lanes on executor $executor" }.mkString

  private def tasksInWords: String = options.tasks match {
    case TaskWish.Stock => ""
    case wish => ", tasks " + ungroupedFor(wish).fold(TaskWish.text(wish))("stock: " + _.why)
  }

  private def rescaleInWords: String = {
    val joins = writers.exists(_.shortName == StatefulOperatorsUtils.SYMMETRIC_HASH_JOIN_EXEC_OP_NAME)
    Checkpoint.unfit(key => Option(conf.getConfString(key, null)), joins).fold("")(", no rescale: " + _)
  }

  /** Throws if this could not be executed, as far as a plan can tell. */
  def check(): Unit = { spec(partitions); () }

  private def partitions: Int = inputs.head.outputPartitioning.numPartitions

  private def key: OperatorKey = OperatorKey(queryId, run.runId, operatorId)

  private def asked: TaskWish = run.tasks(operatorId).getOrElse(options.tasks)

  private def ungroupedFor(wish: TaskWish): Option[Ungrouped] =
    ungrouped.filter(_.always || wish == TaskWish.Auto)

  /** What is wanted now: what somebody has said since the query started, or the option. */
  private def wish: TaskWish =
    if (options.motion.tasks && !ungrouped.exists(_.always)) TaskWish.Exactly(
      ElasticExec.drawnTasks(options.motion.seed, operatorId, batchId.getOrElse(0L), partitions)
    )
    else if (ungroupedFor(asked).nonEmpty) TaskWish.Stock
    else asked

  override private[laneshift] def fewestTasks(partitions: Int): Int =
    if (options.motion.tasks || ungroupedFor(asked).nonEmpty) partitions
    else
      asked match {
        case TaskWish.Stock => partitions
        case TaskWish.Exactly(tasks) => math.min(tasks, partitions)
        case TaskWish.Auto | _: TaskWish.UpTo => 1
      }

  override private[laneshift] def shuffles: Int = inputs.size

  private def inputs: Seq[LaneInputExec] =
    Elasticity.collectRegion(child).collect { case l: LaneInputExec => l }.sortBy(_.index)

  override protected def doExecute(): RDD[InternalRow] = rows

  /** Made once: in how many tasks is decided here, and a row-wise operator above asks for it. */
  @transient private lazy val rows: RDD[InternalRow] = QueryStores.within(conf) {
    val body = child.execute()
    val shuffles = inputs.map(_.child.execute())
    tasks = TaskCounts.of(wish, partitions, realTime, shuffles, regions)
    val now = spec(tasks)
    val all = elastic(shuffles, body, now)
    if (tasks == partitions) all
    else {
      ElasticNode.resolve(all)
      new TaskRangeRDD(all, RpcBytes.of[RDD[InternalRow]](all), now, now.operator.ranges)
    }
  }

  private def writers: Seq[StateStoreWriter] = Elasticity.collectRegion(child).collect {
    case w: StateStoreWriter if w.stateInfo.isDefined => w
  }

  /** That of the region's topmost stateful operator. */
  override def operatorId: Long = writers.head.getStateInfo.operatorId

  private def inputSpec(input: LaneInputExec): InputSpec = {
    val hashed = input.outputPartitioning.asInstanceOf[HashPartitioning].expressions
    val hash = BindReferences.bindReference[Expression](new CollationAwareMurmur3Hash(hashed), input.output)
    InputSpec(
      input.output.map(_.dataType),
      hash,
      if (handoff == HandoffMode.BetweenBatches) reads(input) else Nil,
      if (options.hotKeys == "values") shown(hashed, input) else Nil
    )
  }

  private def shown(keys: Seq[Expression], input: LaneInputExec): Seq[Expression] = keys.map { key =>
    ToPrettyString(
      BindReferences.bindReference[Expression](key, input.output),
      Some(conf.sessionLocalTimeZone)
    )
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

  private def spec(tasks: Int): ElasticSpec = {
    val inputs = this.inputs
    val region = Elasticity.collectRegion(child)
    val info = writers.head.getStateInfo
    val key = this.key
    run.begins(operatorId, partitions)
    ElasticSpec(
      OperatorSpec(
        key,
        writers.head.shortName,
        batchId.getOrElse(info.storeVersion),
        realTime,
        handoff,
        partitions,
        options,
        upstream(inputs.map(_.child)),
        tasks,
        run.knows(operatorId),
        inputs.size,
        rowWork
      ),
      inputs.map(inputSpec),
      output.map(_.dataType),
      stateKeys,
      idsOf(ElasticExec.oncePerStore: _*),
      StateMetrics(
        idsOf("numTotalStateRows"),
        idsOf("stateMemory"),
        idsOf("rocksdbSstFileSize"),
        idsOf("commitTimeMs")
      ),
      sentAt,
      slots,
      readsAhead = handoff == HandoffMode.MidBatchRestart,
      usesPython = Elasticity.usesPython(region),
      commitsFirst = region.takeWhile(!Elasticity.isStateful(_)).exists(readsAllFirst) || region.exists {
        case save: StateStoreSaveExec => save.outputMode.contains(InternalOutputModes.Complete)
        case save: SessionWindowStateStoreSaveExec => save.outputMode.contains(InternalOutputModes.Complete)
        case _ => false
      }
    )
  }

  /** Whether an operator above the state has read all of its rows, behind which the state commits, before it gives its first. */
  private def readsAllFirst(above: SparkPlan): Boolean = above match {
    case _: HashAggregateExec | _: ObjectHashAggregateExec => true
    case _ => false
  }

  /** Ids of the metrics that the region's stateful operators have by these names. */
  private def idsOf(names: String*): Set[Long] =
    writers.flatMap(w => names.flatMap(w.metrics.get)).map(_.id).toSet

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

object ElasticExec {

  /** The fault mode's choice, another one for each batch. */
  private[laneshift] def drawnTasks(seed: Long, operatorId: Long, batchId: Long, partitions: Int): Int =
    1 + new Random(MurmurHash3.orderedHash(Seq(seed, operatorId, batchId))).nextInt(partitions)

  /** Metrics that count stores or what is declared in each: the same from every lane. */
  private def oncePerStore: Seq[String] = "numStateStoreInstances" +: Declared

  private val Declared = for {
    kind <- Seq("Value", "List", "Map")
    ttl <- Seq("", "WithTTL")
  } yield s"num${kind}State${ttl}Vars"

}
