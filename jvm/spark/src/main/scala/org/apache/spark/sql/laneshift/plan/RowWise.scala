package org.apache.spark.sql.laneshift.plan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelationExec
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.conf.LaneshiftConf
import org.apache.spark.sql.laneshift.driver.Run
import org.apache.spark.sql.laneshift.spec.{ElasticOptions, RowWork}
import org.apache.spark.sql.types.ObjectType

/** Finds the row-wise regions of stages without state: the operators that go row by row, from (not including) a stream's source,
  * a shuffle or an operator with state whose row-wise work is apart up to the first that does not.
  */
private[plan] object RowWise {

  /** Wraps those of a batch's plan that are worth it. */
  def wrap(plan: SparkPlan, run: Run, realTime: Boolean): SparkPlan = {
    val conf = plan.conf
    val wanted = conf.getConf(LaneshiftConf.Stateless)
    // A limit stops reading, and what was read further would have moved the watermark.
    val limited = plan.exists(_.isInstanceOf[LimitExec])
    if (limited) plan else new RowWise(conf, run, realTime, wanted).wrap(plan)
  }

  /** Whether a plan reads a stream: a batch of one, or what is explained of one. */
  def readsStream(plan: SparkPlan): Boolean = plan.exists(isStreamLeaf)

  def isOnlyExplained(plan: SparkPlan): Boolean = plan.exists(_.isInstanceOf[StreamingRelationExec])

  private def isStreamLeaf(plan: SparkPlan): Boolean = plan match {
    case s: StreamSourceAwareSparkPlan => s.getStream.isDefined
    case _: RealTimeStreamScanExec | _: StreamingRelationExec => true
    case _ => false
  }

  private def isInside(plan: SparkPlan): Boolean = plan match {
    case _: EventTimeWatermarkExec => true
    case other => Elasticity.isRowWise(other)
  }

  /** Nothing but the source's own rows, in Spark's format. */
  private def isSource(plan: SparkPlan): Boolean = plan match {
    case p: ProjectExec => p.projectList.forall(_.isInstanceOf[Attribute]) && isSource(p.child)
    case c: ColumnarToRowExec => isSource(c.child)
    case other => isStreamLeaf(other)
  }

  /** What a region from `plan` down reads. */
  @scala.annotation.tailrec
  private def below(plan: SparkPlan): SparkPlan =
    if (isInside(plan) && !isSource(plan)) below(plan.children.head) else plan

  private def mayBegin(below: SparkPlan): Boolean = below match {
    case _: ShuffleExchangeLike => true
    case other => isSource(other) || isApart(other)
  }

  private def isApart(plan: SparkPlan): Boolean = plan match {
    case e: ElasticExec => e.rowWork == RowWork.Apart
    case _ => false
  }

  /** Expressions that cost less than a row's way to another thread, on values as rows mostly have them. Spark generates one loop
    * of a stage of them, with its source's filters and the partial aggregate above; a stage on lanes has none.
    */
  private def isCheap(expression: Expression): Boolean = expression match {
    case _: AttributeReference | _: BoundReference | _: Literal | _: Alias | _: Cast => true
    case _: BinaryArithmetic | _: BinaryComparison | _: And | _: Or | _: Not | _: UnaryMinus | _: Abs => true
    case _: IsNull | _: IsNotNull | _: If | _: CaseWhen | _: Coalesce | _: Least | _: Greatest => true
    case _: In | _: InSet | _: StringPredicate | _: String2StringExpression | _: Substring | _: Concat | _: Length =>
      true
    case _: GetStructField | _: CreateNamedStruct | _: HashExpression[_] => true
    // What the rows of a window are told by.
    case _: PreciseTimestampConversion | _: TimestampAddInterval | _: TaggingExpression => true
    case other =>
      Option(other.getClass.getAnnotation(classOf[ExpressionDescription])).exists(d => cheapKinds(d.group))
  }

  /** Kinds of functions, as Spark documents its own, all of which are cheap. */
  private val cheapKinds = Set("bitwise_funcs", "datetime_funcs", "math_funcs")

  /** What Scala's Dataset.map, filter and the like run: functions that may keep something from row to row, and whose user cannot say
    * so, as one of a UDF can.
    */
  private def isTyped(plan: SparkPlan): Boolean = plan match {
    case _: MapElementsExec | _: AppendColumnsExec | _: AppendColumnsWithObjectExec => true
    case f: FilterExec => f.condition.exists { case Literal(_, _: ObjectType) => true; case _ => false }
    case _ => false
  }

  private def isWorthIt(region: Seq[SparkPlan]): Boolean =
    region.exists(mayBeCostly) && !region.exists(isTyped)

  def mayBeCostly(plan: SparkPlan): Boolean = plan match {
    case _: ProjectExec | _: FilterExec => plan.expressions.exists(_.exists(!isCheap(_)))
    case _: EventTimeWatermarkExec => false
    case _: SerializeFromObjectExec | _: DeserializeToObjectExec => false
    case _ => true
  }
}

/** @param wanted which stages without state */
private final class RowWise(conf: SQLConf, run: Run, realTime: Boolean, wanted: String) {
  import RowWise._
  private val numbers = new RowWiseNumbers(run)

  def wrap(plan: SparkPlan): SparkPlan = plan match {
    case e: ElasticExec => e.mapChildren(belowLanes)
    case top if isInside(top) && !isSource(top) && !Elasticity.putsOutObjects(top) && mayBegin(below(top)) =>
      val serves = wanted == "true" || wanted == "auto" && isWorthIt(region(top))
      if (serves || isApart(below(top))) {
        val number = numbers.of(below(top))
        RowWiseExec(lanes(top), number, run, realTime, ElasticOptions.from(conf).copy(shards = 1))
      } else top.mapChildren(wrap)
    case other => other.mapChildren(wrap)
  }

  private def belowLanes(plan: SparkPlan): SparkPlan = plan match {
    case input: LaneInputExec => input.mapChildren(wrap)
    case other => other.mapChildren(belowLanes)
  }

  private def region(top: SparkPlan): Seq[SparkPlan] =
    if (isInside(top) && !isSource(top)) top +: region(top.children.head) else Nil

  /** What each lane runs. */
  private def lanes(plan: SparkPlan): SparkPlan =
    if (isInside(plan) && !isSource(plan)) plan.mapChildren(lanes)
    else {
      val below = wrap(plan)
      // Functions on Arrow data take a source's columns as they are; lanes are dealt rows.
      LaneInputExec(if (below.supportsColumnar) ColumnarToRowExec(below) else below, 0, dealt = true)
    }
}

/** Numbers of row-wise operators, behind those of the stateful ones: a region keeps its number from batch to batch, by the source
  * that it reads, whatever Spark leaves out of a batch's plan.
  */
private[plan] final class RowWiseNumbers(run: Run) {
  private val met = mutable.Map.empty[AnyRef, Int]

  def of(below: SparkPlan): Long = {
    val place = placeOf(below)
    val times = met.getOrElse(place, 0)
    met(place) = times + 1
    run.stage((place, times))
  }

  /** What is the same in every batch. */
  private def placeOf(below: SparkPlan): AnyRef = below match {
    case s: StreamSourceAwareSparkPlan => s.getStream.get
    case s: RealTimeStreamScanExec => s.stream
    case s: ShuffleExchangeLike => s.output.map(_.name)
    case state: ElasticExec => state.operatorId: java.lang.Long
    case leaf if leaf.children.isEmpty => leaf.output.map(_.name)
    case other => placeOf(other.children.head)
  }
}
