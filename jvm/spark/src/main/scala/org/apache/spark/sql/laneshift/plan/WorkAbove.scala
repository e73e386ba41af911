package org.apache.spark.sql.laneshift.plan

import org.apache.spark.sql.catalyst.expressions.NamedExpression
import org.apache.spark.sql.catalyst.expressions.aggregate.Final
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate._
import org.apache.spark.sql.execution.streaming.ProjectAggregationBufferExec

/** A region's row-wise work above its state, which needs no lane of its own: where one key is hotter than a core, it goes apart, to
  * any lane, while the state stays on its key's (docs/handoff.md, section 14).
  *
  * @param state what stays together
  * @param above what goes row by row over its outputs, topmost first
  */
private[plan] final case class WorkAbove(state: SparkPlan, above: List[SparkPlan]) {

  /** The whole, with `below` in the place of what stays with the state. */
  def over(below: SparkPlan): SparkPlan =
    above.foldRight(below)((node, child) => node.withNewChildren(Seq(child)))
}

private[plan] object WorkAbove {

  /** That of the region that starts at `top`; none if nothing in it may be costly. */
  def of(top: SparkPlan): Option[WorkAbove] = {
    val found = cut(top)
    Option.when(found.above.exists(RowWise.mayBeCostly))(lowered(found))
  }

  /** What goes on from lane to lane are rows: where objects do, it is not cut. */
  private def cut(plan: SparkPlan): WorkAbove =
    if (Elasticity.isRowWise(plan)) {
      val below = cut(plan.children.head)
      if (below.above.isEmpty && Elasticity.putsOutObjects(below.state)) WorkAbove(plan, Nil)
      else below.copy(above = plan :: below.above)
    } else
      plan match {
        case aggregate: BaseAggregateExec => bare(aggregate).getOrElse(WorkAbove(plan, Nil))
        case other => WorkAbove(other, Nil)
      }

  /** Spark has a final aggregate compute the columns above it, too: they go into a projection of their own, if they may be costly. */
  private def bare(aggregate: BaseAggregateExec): Option[WorkAbove] = {
    val groups: Seq[NamedExpression] = aggregate.groupingExpressions.map(_.toAttribute)
    val results = groups ++ aggregate.aggregateAttributes
    val isFinal =
      aggregate.aggregateExpressions.nonEmpty && aggregate.aggregateExpressions.forall(_.mode == Final)
    val without = aggregate match {
      case _ if !isFinal => None
      case a: HashAggregateExec => Some(a.copy(resultExpressions = results))
      case a: ObjectHashAggregateExec => Some(a.copy(resultExpressions = results))
      case a: SortAggregateExec => Some(a.copy(resultExpressions = results))
      case a: ProjectAggregationBufferExec => Some(a.copy(resultExpressions = results))
      case _ => None
    }
    without
      .map(below => WorkAbove(below, List(ProjectExec(aggregate.resultExpressions, below))))
      .filter(parted => Elasticity.isRowWise(parted.above.head) && RowWise.mayBeCostly(parted.above.head))
  }

  /** Cheap work next to the state, filters above all, stays with it: what they leave out need not go to another lane. */
  @scala.annotation.tailrec
  private def lowered(parted: WorkAbove): WorkAbove = {
    val lowest = parted.above.last
    if (RowWise.mayBeCostly(lowest) || Elasticity.putsOutObjects(lowest)) parted
    else lowered(WorkAbove(lowest.withNewChildren(Seq(parted.state)), parted.above.init))
  }
}
