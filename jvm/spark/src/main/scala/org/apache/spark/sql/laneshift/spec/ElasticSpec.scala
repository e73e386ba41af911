package org.apache.spark.sql.laneshift.spec

import java.util.concurrent.TimeUnit

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.conf.{LaneshiftConf, MotionConf}
import org.apache.spark.sql.types.DataType

import laneshift.lane.QueueTime
import laneshift.routing.TaskRanges

/** When a shard of an elastic operator may change its lane. */
sealed abstract class HandoffMode(val name: String) extends Serializable

object HandoffMode {

  /** Between any two rows; the operator goes on with its other shards. */
  case object MidBatch extends HandoffMode("mid-batch")

  /** Between any two rows, but the lane's operators end their input, flush and start again (a lane restart). */
  case object MidBatchRestart extends HandoffMode("mid-batch-restart")

  /** Between two batches: the operator blocks, it holds rows of every key until its input ends. */
  case object BetweenBatches extends HandoffMode("between-batches")

  /** Never: rows go to any lane, and outputs in the order of the rows. */
  case object Dealt extends HandoffMode("dealt")
}

/** In how many tasks an operator's state partitions are wanted. */
sealed trait TaskWish

object TaskWish {

  /** One for each, as Spark has it. */
  case object Stock extends TaskWish

  /** As slots allow: in Real-time Mode no more than are free, in micro-batches no more than keep them busy. */
  case object Auto extends TaskWish

  /** So many, and no more than there are partitions. */
  final case class Exactly(tasks: Int) extends TaskWish

  /** So many at most; in Real-time Mode no more than slots are free, either. */
  final case class UpTo(tasks: Int) extends TaskWish

  def of(text: String): Option[TaskWish] = text match {
    case "stock" => Some(Stock)
    case "auto" => Some(Auto)
    case s"<=$number" => number.toIntOption.filter(_ >= 1).map(UpTo)
    case number => number.toIntOption.filter(_ >= 1).map(Exactly)
  }

  def text(wish: TaskWish): String = wish match {
    case Stock => "stock"
    case Auto => "auto"
    case Exactly(tasks) => tasks.toString
    case UpTo(tasks) => s"<=$tasks"
  }
}

/** A node of a plan whose partitions may be computed in fewer tasks than there are. */
trait RangedNode {

  /** So many tasks there are at least if the query has `partitions` state partitions; on any thread. */
  private[laneshift] def fewestTasks(partitions: Int): Int

  /** Shuffles that it reads. */
  private[laneshift] def shuffles: Int
}

/** Row-wise work above an operator's state that may be costly.
  *
  * @param name in snapshots
  */
sealed abstract class RowWork(val name: String) extends Serializable

object RowWork {

  /** None, or it stays with the state for good. */
  case object Fixed extends RowWork("none")

  /** Done by the key's lane; may go apart in a later batch, if executors tell that a hot key is what bounds them, or a planner says so. */
  case object WithState extends RowWork("with-state")

  /** Done by any lane: the stage above is a row-wise operator of its own. */
  case object Apart extends RowWork("apart")
}

/** The options of one elastic operator, read once per batch on the driver. Times in milliseconds. */
final case class ElasticOptions(
    shards: Int,
    lanes: Option[Int],
    maxLanes: Int,
    queueBytes: Long,
    queueTimeMs: Long,
    remoteLanes: Int,
    remoteWindowBytes: Long,
    remoteCacheBytes: Long,
    hotKeys: String,
    balance: Boolean,
    threshold: Double,
    balanceIntervalMs: Long,
    loadByCpu: Boolean,
    motion: MotionOptions,
    tasks: TaskWish
)

/** The options of the fault mode. */
final case class MotionOptions(
    mode: String,
    remoteLanes: Int,
    tasks: Boolean,
    seed: Long,
    intervalMs: Long
)

object ElasticOptions {
  def from(conf: SQLConf): ElasticOptions = ElasticOptions(
    shards = conf.getConf(LaneshiftConf.ShardsPerPartition),
    lanes = conf.getConf(LaneshiftConf.Lanes).toIntOption,
    maxLanes = conf.getConf(LaneshiftConf.MaxLanes),
    queueBytes = conf.getConf(LaneshiftConf.QueueBytes),
    queueTimeMs = conf.getConf(LaneshiftConf.QueueTime),
    remoteLanes = conf.getConf(LaneshiftConf.RemoteMaxLanes),
    remoteWindowBytes = conf.getConf(LaneshiftConf.RemoteWindow),
    remoteCacheBytes = conf.getConf(LaneshiftConf.RemoteCache),
    hotKeys = conf.getConf(LaneshiftConf.HotKeysShown),
    balance = conf.getConf(LaneshiftConf.BalanceEnabled),
    threshold = conf.getConf(LaneshiftConf.BalanceThreshold),
    balanceIntervalMs = conf.getConf(LaneshiftConf.BalanceInterval),
    loadByCpu = conf.getConf(LaneshiftConf.BalanceMetric) == "cpu",
    motion = MotionOptions(
      conf.getConf(MotionConf.Mode),
      conf.getConf(MotionConf.RemoteLanes),
      conf.getConf(MotionConf.Tasks),
      conf.getConf(MotionConf.Seed),
      conf.getConf(MotionConf.Interval)
    ),
    tasks = TaskWish.of(conf.getConf(LaneshiftConf.Tasks)).get
  )
}

/** Names one elastic operator of one run of a query. */
final case class OperatorKey(queryId: String, runId: String, operatorId: Long)

/** Where a stateful operator's state rows have what the shuffles hashed of its input rows.
  *
  * @param ordinals which fields of the operator's key, in the order in which they were hashed
  * @param grouped true if column families differ in where they keep the key (transformWithState); otherwise a state row's
  *   key begins with it
  */
final case class StateKey(ordinals: Seq[Int], grouped: Boolean)

/** State that a row of an input leads to: the operator that will read it, and the key by which, in terms of the row. */
final case class StateRead(operatorId: Long, key: Seq[Expression])

/** One input of an elastic operator: the types of its rows' fields, what the shuffle hashed of them, what state its rows tell
  * that operators will read, and what of their keys may be shown, as text.
  */
final case class InputSpec(
    types: Seq[DataType],
    hash: Expression,
    reads: Seq[StateRead] = Nil,
    shownKey: Seq[Expression] = Nil
) {
  def fields: Int = types.size
}

/** Ids of the accumulators in which a region's stateful operators report on their stores, and on how long commits took (ms). */
final case class StateMetrics(rows: Set[Long], memory: Set[Long], files: Set[Long], commits: Set[Long])

/** An elastic operator in one batch, in plain values: what anybody may know of it.
  *
  * @param upstream the elastic operators of the same query that feed it, each by its [[OperatorKey]]'s operator id
  * @param tasks Spark tasks that compute its partitions, each a range of them
  * @param remembered the driver remembers some of its partitions: executors that have not seen them ask
  * @param inputs shuffles that it reads: the rows of several meet in it
  * @param above where the row-wise work above its state is done
  */
final case class OperatorSpec(
    key: OperatorKey,
    name: String,
    batchId: Long,
    realTime: Boolean,
    handoff: HandoffMode,
    partitions: Int,
    options: ElasticOptions,
    upstream: Seq[Long],
    tasks: Int,
    remembered: Boolean = false,
    inputs: Int = 1,
    above: RowWork = RowWork.Fixed
) {

  /** Whether it has a partition of this number: a source may have fewer in one batch, and more in the next. */
  def has(index: Int): Boolean = index < partitions || handoff == HandoffMode.Dealt

  /** Which partitions each task computes. */
  def ranges: TaskRanges = TaskRanges(partitions, tasks)

  /** Whether no lane of it can be on another executor: rows of a stage without state are dealt at home. */
  def lanesStayHome: Boolean = handoff == HandoffMode.Dealt

  /** The most lanes of a partition on other executors. */
  def maxElsewhere: Int = if (lanesStayHome) 0 else options.remoteLanes
}

/** What an executor must know of an elastic operator besides its plan.
  *
  * @param inputs what the region reads, by the index of its `LaneInputExec`
  * @param outputs the types of what it puts out
  * @param stateKeys for each stateful operator id of the region
  * @param onceMetrics ids of the accumulators that count stores, not lanes
  * @param sentAt which output has the time at which a row set out
  * @param slots tasks that Spark runs at a time, on all executors
  * @param readsAhead some of its operators read rows ahead of those that they work on (Python's)
  * @param usesPython some of its operators have functions in Python, which run in processes of their own
  * @param commitsFirst Spark's operators commit before their first row (complete mode, an aggregate by hash), and else behind the last
  */
final case class ElasticSpec(
    operator: OperatorSpec,
    inputs: Seq[InputSpec],
    outputs: Seq[DataType],
    stateKeys: Map[Long, StateKey],
    onceMetrics: Set[Long],
    stateMetrics: StateMetrics,
    sentAt: Option[Int],
    slots: Int,
    readsAhead: Boolean,
    usesPython: Boolean,
    commitsFirst: Boolean
) {
  def key: OperatorKey = operator.key
  def rowWork: RowWork = operator.above
  def batchId: Long = operator.batchId
  def realTime: Boolean = operator.realTime

  /** Bound in time of what waits for a lane. A micro-batch's rows are all there: they wait in its shuffle, or here. */
  def queueTime: Option[QueueTime] =
    Option.when(realTime)(QueueTime(TimeUnit.MILLISECONDS.toNanos(options.queueTimeMs)))
  def handoff: HandoffMode = operator.handoff

  /** Routing and lanes hold from the first row to the last commit. */
  def isFixed: Boolean = handoff == HandoffMode.BetweenBatches
  def partitions: Int = operator.partitions

  /** Whether its partitions find out which keys have the most rows. */
  def countsKeys: Boolean = handoff != HandoffMode.Dealt && options.hotKeys != "none"
  def options: ElasticOptions = operator.options
}
