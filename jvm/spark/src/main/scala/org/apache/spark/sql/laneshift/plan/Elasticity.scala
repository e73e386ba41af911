package org.apache.spark.sql.laneshift.plan

import org.apache.spark.api.python.PythonEvalType
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, Nondeterministic}
import org.apache.spark.sql.catalyst.expressions.aggregate.Partial
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.execution.python.EvalPythonExec
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.{
  ProjectAggregationBufferExec,
  StatefulStreamlineAggregateExec
}
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate._
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.spec.{ElasticOptions, HandoffMode, KeyEncoding, KnowsOneRow, StateKey}
import org.apache.spark.sql.types.ObjectType

/** Which part of a physical plan can be made elastic, and if none, why not.
  *
  * A region goes from (not including) the shuffle below a stateful operator up through it and through the row-wise operators
  * above it (design fact 16).
  */
object Elasticity {

  /** What a region's lanes need to know. `stateKeys` as in [[ElasticSpec]]. */
  final case class Region(handoff: HandoffMode, stateKeys: Map[Long, StateKey])

  /** Operators that work on one row at a time and know nothing of other rows: the top of a region may consist of them.
    * Expressions that count rows or partitions (monotonically_increasing_id) would count per lane, and generators that put
    * out something at the end would do so per lane: both stay above the region.
    */
  def isRowWise(plan: SparkPlan): Boolean = plan match {
    case _: ProjectExec | _: FilterExec => plan.expressions.forall(knowsOneRow)
    // One that gets an iterator may keep something from row to row.
    case e: EvalPythonExec => e.udfs.forall(f => !iterating(f.evalType)) && e.expressions.forall(knowsOneRow)
    case g: GenerateExec => g.generator.supportCodegen && g.expressions.forall(knowsOneRow)
    // One object at a time: what typed queries have between a row and the user's class.
    case _: SerializeFromObjectExec | _: DeserializeToObjectExec | _: MapElementsExec =>
      plan.expressions.forall(knowsOneRow)
    case _: AppendColumnsExec | _: AppendColumnsWithObjectExec => plan.expressions.forall(knowsOneRow)
    case _ => false
  }

  private val iterating = Set(
    PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF,
    PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF
  )

  private def knowsOneRow(expression: Expression): Boolean = expression match {
    case known: KnowsOneRow => known.children.forall(knowsOneRow)
    case _: Nondeterministic => false
    case other =>
      (other.deterministic || other.children.exists(!_.deterministic)) && other.children.forall(knowsOneRow)
  }

  /** True if `plan`, above a region over `keys`, may join it: row-wise operators, partial aggregates, and aggregates by at
    * least the region's keys (the final step of a streaming aggregation), for which no two lanes meet the same group. Spark has
    * that step compute the columns above it, too, and these know one row then.
    */
  def mayJoinAbove(plan: SparkPlan, keys: Seq[Attribute]): Boolean = plan match {
    case a: BaseAggregateExec =>
      def isPartial = a.aggregateExpressions.forall(_.mode == Partial) &&
        a.requiredChildDistribution.forall(_ == UnspecifiedDistribution)
      def isByKeys =
        keys.nonEmpty && keys.forall(k => a.groupingExpressions.exists(_.toAttribute.semanticEquals(k)))
      (isPartial || isByKeys) && a.resultExpressions.forall(knowsOneRow)
    case other => isRowWise(other)
  }

  /** The keys of the topmost stateful operator if a region may start at `plan`: that operator or what may join above it. */
  def startKeys(plan: SparkPlan): Option[Seq[Attribute]] = plan match {
    case w: StateStoreWriter if isStateful(w) => Some(keysOf(w).getOrElse(Nil))
    case other if other.children.size == 1 =>
      startKeys(other.children.head).filter(mayJoinAbove(other, _))
    case _ => None
  }

  /** True if a region may start at `plan`. What lanes put out are rows: where objects go on, the region ends below. */
  def mayStart(plan: SparkPlan): Boolean =
    startKeys(plan).isDefined && (isStateful(plan) || !putsOutObjects(plan))

  private[plan] def putsOutObjects(plan: SparkPlan): Boolean =
    plan.output.exists(_.dataType.isInstanceOf[ObjectType])

  /** Operators that may stand between a stateful operator and its shuffle, among them the last step of an aggregation below it,
    * with the columns that Spark has it compute. An elastic streamline aggregate is still Spark's own here: the rule replaces it
    * afterwards.
    */
  private def isInside(plan: SparkPlan): Boolean = plan match {
    case a: BaseAggregateExec => a.resultExpressions.forall(knowsOneRow)
    case _: SortExec => true
    case _: StateStoreRestoreExec | _: SessionWindowStateStoreRestoreExec => true
    case other => isRowWise(other)
  }

  def keysOf(writer: StateStoreWriter): Option[Seq[Attribute]] = writer match {
    case s: StateStoreSaveExec => Some(s.keyExpressions)
    case s: StatefulStreamlineAggregateExec => Some(s.keyExpressions)
    case s: SessionWindowStateStoreSaveExec => Some(s.keyExpressions)
    case d: BaseStreamingDeduplicateExec => Some(d.keyExpressions)
    case f: FlatMapGroupsWithStateExecBase => Some(f.keyExpressions)
    case t: TransformWithStateExecBase => Some(t.keyExpressions)
    case _ => None
  }

  /** What the state of a stateful operator is keyed by, for each of its inputs in terms of that input. */
  def keysByInput(writer: StateStoreWriter): Option[Seq[Seq[Expression]]] = writer match {
    case j: StreamingSymmetricHashJoinExec => Some(Seq(j.leftKeys, j.rightKeys))
    case other => keysOf(other).filter(_ => inputsOf(other).size == 1).map(Seq(_))
  }

  /** The children that `plan` runs: an operator without initial state has a second child that it never does. */
  def inputsOf(plan: SparkPlan): Seq[SparkPlan] = plan match {
    case f: FlatMapGroupsWithStateExec if !f.hasInitialState => Seq(f.child)
    case t: TransformWithStateExec if !t.hasInitialState => Seq(t.child)
    case t: TransformWithStateInPySparkExec if !t.hasInitialState => Seq(t.child)
    case other => other.children
  }

  /** True for a stateful operator of a stream that a region may start with: `StateStoreWriter` also marks exchanges and
    * readers, and transformWithState has state in a batch query, too.
    */
  def isStateful(plan: SparkPlan): Boolean = plan match {
    case t: TransformWithStateExec if !t.isStreaming => false
    case t: TransformWithStateInPySparkExec if !t.isStreaming => false
    case w: StateStoreWriter => w.stateInfo.isDefined
    case _ => false
  }

  /** The region that starts at `top`, which is a stateful operator or row-wise above one; `Left` says why there is none. */
  def region(top: SparkPlan, conf: SQLConf): Either[String, Region] =
    for {
      _ <- Either.cond(
        !putsOutObjects(top),
        (),
        s"what is above ${top.nodeName} takes its objects and does not go row by row"
      )
      parts <- partsAt(top)
      hashes <- each(parts.shuffles)(_.outputPartitioning match {
        case h: HashPartitioning => Right(h)
        case other =>
          Left(s"its input is not hash partitioned but $other: there is one partition or no grouping key")
      })
      partitions = parts.writers.head.stateInfo.get.numPartitions
      _ <- each(hashes)(h =>
        Either.cond(
          h.numPartitions == partitions,
          (),
          s"its shuffle has ${h.numPartitions} partitions but its state $partitions"
        )
      )
      _ <- Either.cond(
        partitions.toLong * ElasticOptions.from(conf).shards <= Int.MaxValue,
        (),
        s"$partitions partitions of ${ElasticOptions.from(conf).shards} shards are too many"
      )
      keys <- each(parts.writers)(w => stateKey(w).map(w.stateInfo.get.operatorId -> _))
    } yield Region(handoff(top, conf), keys.toMap)

  /** The stateful operators of a region, topmost first, and the shuffles that it reads. */
  private final case class Parts(writers: Seq[StateStoreWriter], shuffles: Seq[ShuffleExchangeLike])

  private def partsAt(plan: SparkPlan): Either[String, Parts] = plan match {
    case w: StateStoreWriter if isStateful(w) =>
      for {
        _ <- keysByInput(w).toRight(whyNotSplit(w))
        _ <- KeyEncoding.refusal(w).toLeft(())
        below <- partsBelow(w)
      } yield below.copy(writers = w +: below.writers)
    case e: ShuffleExchangeLike => Right(Parts(Nil, Seq(e)))
    case inner if isInside(inner) && inner.children.size == 1 => partsBelow(inner)
    case other => Left(s"there is ${other.nodeName} between the stateful operator and its shuffle")
  }

  private def whyNotSplit(writer: StateStoreWriter): String = writer match {
    case _: StreamingGlobalLimitExec =>
      "a limit counts the rows of the whole query: there is no key to split it by"
    case other if keysOf(other).isDefined => s"${other.nodeName} has ${inputsOf(other).size} inputs"
    case other => s"laneshift does not know how to split ${other.nodeName} yet"
  }

  private def partsBelow(plan: SparkPlan): Either[String, Parts] =
    each(inputsOf(plan))(partsAt).map(all => Parts(all.flatMap(_.writers), all.flatMap(_.shuffles)))

  private def each[A, B](all: Seq[A])(f: A => Either[String, B]): Either[String, Seq[B]] = {
    val results = all.map(f)
    results.collectFirst { case Left(why) => why }.toLeft(results.collect { case Right(b) => b })
  }

  /** Which fields of an operator's state key its shuffles have hashed, in order: the same ones for every input. Rows of a
    * join are partitioned by either side's keys; one that can be found again is enough.
    */
  private def stateKey(writer: StateStoreWriter): Either[String, StateKey] = {
    val byInput = inputsOf(writer).zip(keysByInput(writer).get).map { case (input, keys) =>
      val hashes = hashesOf(input.outputPartitioning)
      hashes
        .map(_.expressions.map(e => keys.indexWhere(_.semanticEquals(e))))
        .find(o => o.nonEmpty && !o.contains(-1))
        .toRight(
          s"the shuffle's key ${hashes.map(_.expressions.mkString("(", ", ", ")")).mkString(" or ")} cannot be " +
            s"found again in the state key of ${writer.nodeName} ${keys.mkString("(", ", ", ")")}"
        )
    }
    each(byInput)(identity).flatMap { ordinals =>
      Either.cond(
        ordinals.distinct.size == 1,
        StateKey(ordinals.head, grouped = writer.isInstanceOf[TransformWithStateExecBase]),
        s"the inputs of ${writer.nodeName} are shuffled by different fields of its key: $ordinals"
      )
    }
  }

  private def hashesOf(partitioning: Partitioning): Seq[HashPartitioning] = partitioning match {
    case h: HashPartitioning => Seq(h)
    case either: PartitioningCollection => either.partitionings.flatMap(hashesOf)
    case _ => Nil
  }

  private def handoff(top: SparkPlan, conf: SQLConf): HandoffMode = {
    val nodes = collectRegion(top)
    val blocking = nodes.exists {
      // Aggregates of Real-time Mode go row by row.
      case _: StatefulStreamlineAggregateExec | _: ProjectAggregationBufferExec => false
      case _: BaseAggregateExec | _: SortExec => true
      // Its rows come sorted, or it goes row by row.
      case _: TransformWithStateExecBase => false
      // It evicts all along its input, by a scan: shards must not come or go meanwhile.
      case _: BaseStreamingDeduplicateExec =>
        conf.getConf(SQLConf.STREAMING_STATE_INCREMENTAL_CLEANUP_FACTOR) > 0
      // The others keep what they read, as a join does whose lanes are at different inputs; so may one that is new here.
      case w: StateStoreWriter => isStateful(w)
      case _ => false
    }
    val buffering = nodes.exists {
      case _: EvalPythonExec => true
      case s: StatefulStreamlineAggregateExec => !ElasticStreamlineAggregateExec.canReplace(s, conf)
      case _ => false
    }
    if (blocking) HandoffMode.BetweenBatches
    else if (buffering) HandoffMode.MidBatchRestart
    else HandoffMode.MidBatch
  }

  /** Whether some of these operators have functions in Python: those of one package of Spark's, and ours made of them. */
  def usesPython(nodes: Seq[SparkPlan]): Boolean = nodes.exists { node =>
    Iterator
      .iterate[Class[_]](node.getClass)(_.getSuperclass)
      .takeWhile(_ != null)
      .exists(_.getName.startsWith("org.apache.spark.sql.execution.python."))
  }

  /** That of the topmost stateful operator of the region that starts at `top`. */
  def operatorId(top: SparkPlan): Long =
    collectRegion(top).collectFirst {
      case w: StateStoreWriter if isStateful(w) => w.getStateInfo.operatorId
    }.get

  /** The nodes of the region that starts at `top`, without its shuffle. */
  def collectRegion(top: SparkPlan): Seq[SparkPlan] = top match {
    case _: ShuffleExchangeLike => Nil
    case node => node +: inputsOf(node).flatMap(collectRegion)
  }
}
