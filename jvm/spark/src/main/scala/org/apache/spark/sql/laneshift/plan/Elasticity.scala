package org.apache.spark.sql.laneshift.plan

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, Nondeterministic}
import org.apache.spark.sql.catalyst.expressions.aggregate.Partial
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, UnspecifiedDistribution}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.execution.python.EvalPythonExec
import org.apache.spark.sql.execution.streaming.{
  ProjectAggregationBufferExec,
  StatefulStreamlineAggregateExec
}
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.workload.LaneshiftCost

/** Which part of a physical plan can be made elastic, and if none, why not.
  *
  * A region goes from (not including) the shuffle below a stateful operator up through it and through the row-wise operators
  * above it (design fact 16).
  */
object Elasticity {

  /** What a region's lanes need to know. `keyOrdinals` as in [[ElasticSpec]]. */
  final case class Region(granularity: Granularity, keyOrdinals: Map[Long, Seq[Int]])

  /** Operators that work on one row at a time and know nothing of other rows: the top of a region may consist of them.
    * Expressions that count rows or partitions (monotonically_increasing_id) would count per lane, and generators that put
    * out something at the end would do so per lane: both stay above the region.
    */
  def isRowWise(plan: SparkPlan): Boolean = plan match {
    case _: ProjectExec | _: FilterExec | _: EvalPythonExec => plan.expressions.forall(knowsOneRow)
    case g: GenerateExec => g.generator.supportCodegen && g.expressions.forall(knowsOneRow)
    case _ => false
  }

  private def knowsOneRow(expression: Expression): Boolean = expression match {
    case cost: LaneshiftCost => cost.children.forall(knowsOneRow)
    case _: Nondeterministic => false
    case other =>
      (other.deterministic || other.children.exists(!_.deterministic)) && other.children.forall(knowsOneRow)
  }

  /** True if `plan`, above a region over `keys`, may join it: row-wise operators, partial aggregates, and aggregates by at
    * least the region's keys (the final step of a streaming aggregation), for which no two lanes meet the same group.
    */
  def mayJoinAbove(plan: SparkPlan, keys: Seq[Attribute]): Boolean = plan match {
    case a: BaseAggregateExec =>
      a.aggregateExpressions.forall(_.mode == Partial) && a.requiredChildDistribution.forall(
        _ == UnspecifiedDistribution
      ) ||
      keys.forall(k => a.groupingExpressions.exists(_.toAttribute.semanticEquals(k)))
    case other => isRowWise(other)
  }

  /** The keys of the topmost stateful operator if a region may start at `plan`: that operator or what may join above it. */
  def startKeys(plan: SparkPlan): Option[Seq[Attribute]] = plan match {
    case w: StateStoreWriter if w.stateInfo.isDefined => Some(keysOf(w).getOrElse(Nil))
    case other if other.children.size == 1 =>
      startKeys(other.children.head).filter(mayJoinAbove(other, _))
    case _ => None
  }

  /** Operators that may stand between a stateful operator and its shuffle. An elastic streamline aggregate is still
    * Spark's own here: the rule replaces it afterwards.
    */
  private def isInside(plan: SparkPlan): Boolean = plan match {
    case _: BaseAggregateExec | _: SortExec | _: StateStoreRestoreExec => true
    case other => isRowWise(other)
  }

  def keysOf(writer: StateStoreWriter): Option[Seq[Attribute]] = writer match {
    case s: StateStoreSaveExec => Some(s.keyExpressions)
    case s: StatefulStreamlineAggregateExec => Some(s.keyExpressions)
    case d: BaseStreamingDeduplicateExec => Some(d.keyExpressions)
    case _ => None
  }

  /** True for a stateful operator that a region may start with: `StateStoreWriter` also marks exchanges and readers. */
  def isStateful(plan: SparkPlan): Boolean = plan match {
    case w: StateStoreWriter => w.stateInfo.isDefined
    case _ => false
  }

  /** The region that starts at `top`, which is a stateful operator or row-wise above one; `Left` says why there is none. */
  def region(top: SparkPlan, conf: SQLConf): Either[String, Region] = {
    def down(
        plan: SparkPlan,
        writers: List[StateStoreWriter]
    ): Either[String, (Seq[StateStoreWriter], ShuffleExchangeLike)] =
      plan match {
        case w: StateStoreWriter if w.stateInfo.isDefined =>
          if (keysOf(w).isEmpty) Left(s"laneshift does not know how to split ${w.nodeName} yet")
          else if (w.children.size != 1) Left(s"${w.nodeName} has ${w.children.size} inputs")
          else down(w.children.head, w :: writers)
        case e: ShuffleExchangeLike => Right((writers.reverse, e))
        case inner if isInside(inner) && inner.children.size == 1 => down(inner.children.head, writers)
        case other => Left(s"there is ${other.nodeName} between the stateful operator and its shuffle")
      }

    for {
      found <- down(top, Nil)
      (writers, exchange) = found
      hash <- exchange.outputPartitioning match {
        case h: HashPartitioning => Right(h)
        case other =>
          Left(s"its input is not hash partitioned but $other: there is one partition or no grouping key")
      }
      _ <- writers.find(_.stateInfo.get.numPartitions != hash.numPartitions) match {
        case Some(w) =>
          Left(
            s"its shuffle has ${hash.numPartitions} partitions but its state ${w.stateInfo.get.numPartitions}"
          )
        case None => Right(())
      }
      _ <- Either.cond(
        hash.numPartitions.toLong * ElasticOptions.from(conf).shards <= Int.MaxValue,
        (),
        s"${hash.numPartitions} partitions of ${ElasticOptions.from(conf).shards} shards are too many"
      )
      ordinals <- allOrdinals(writers, hash.expressions)
    } yield Region(granularity(top, conf), ordinals)
  }

  private def allOrdinals(
      writers: Seq[StateStoreWriter],
      hashed: Seq[Expression]
  ): Either[String, Map[Long, Seq[Int]]] = {
    val each = writers.map { w =>
      val keys = keysOf(w).get
      val ordinals = hashed.map(e => keys.indexWhere(_.semanticEquals(e)))
      if (ordinals.isEmpty || ordinals.contains(-1))
        Left(
          s"the shuffle's key ${hashed.mkString("(", ", ", ")")} cannot be found again in the state key of " +
            s"${w.nodeName} ${keys.mkString("(", ", ", ")")}"
        )
      else Right(w.stateInfo.get.operatorId -> ordinals)
    }
    each.collectFirst { case Left(why) => why }.toLeft(each.collect { case Right(kv) => kv }.toMap)
  }

  private def granularity(top: SparkPlan, conf: SQLConf): Granularity = {
    val nodes = collectRegion(top)
    val blocking = nodes.exists {
      // Aggregates of Real-time Mode go row by row.
      case _: StatefulStreamlineAggregateExec | _: ProjectAggregationBufferExec => false
      case _: BaseAggregateExec | _: SortExec | _: StateStoreSaveExec => true
      case _ => false
    }
    val buffering = nodes.exists {
      case _: EvalPythonExec => true
      case s: StatefulStreamlineAggregateExec => !ElasticStreamlineAggregateExec.canReplace(s, conf)
      case _ => false
    }
    if (blocking) Granularity.BetweenBatches
    else if (buffering) Granularity.MidBatchRestart
    else Granularity.MidBatch
  }

  /** The nodes of the region that starts at `top`, without its shuffle. */
  def collectRegion(top: SparkPlan): Seq[SparkPlan] = top match {
    case _: ShuffleExchangeLike => Nil
    case node => node +: node.children.flatMap(collectRegion)
  }
}
