package org.apache.spark.sql.laneshift.plan

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Literal, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.EvalPythonExec
import org.apache.spark.sql.laneshift.driver.Run
import org.apache.spark.sql.laneshift.spec.{
  ElasticOptions,
  ElasticSpec,
  HandoffMode,
  InputSpec,
  OperatorKey,
  OperatorSpec,
  StateMetrics
}

/** The top of a row-wise region without state: its rows are dealt to lanes, and its outputs come in the order of the rows, so that
  * nothing above it can tell.
  *
  * @param run of the query; on the driver only
  */
case class RowWiseExec(
    child: SparkPlan,
    operatorId: Long,
    @transient run: Run,
    realTime: Boolean,
    options: ElasticOptions
) extends ElasticNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  /** Two that do the same with the same rows are one to Spark, which then reads the source once for both. */
  override protected def doCanonicalize(): SparkPlan =
    super.doCanonicalize().asInstanceOf[RowWiseExec].copy(operatorId = 0L)

  override def simpleString(maxFields: Int): String = s"$nodeName [row-wise, in order, $lanesInWords]"

  private def laneInput: LaneInputExec =
    child.collectFirst { case l: LaneInputExec => l }.get

  /** What every lane runs. */
  private def nodes: Seq[SparkPlan] = {
    def from(plan: SparkPlan): Seq[SparkPlan] = plan match {
      case _: LaneInputExec => Nil
      case node => node +: node.children.flatMap(from)
    }
    from(child)
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val input = laneInput.child.execute()
    elastic(Seq(input), child.execute(), spec(input.getNumPartitions))
  }

  private def spec(partitions: Int): ElasticSpec = {
    val key = OperatorKey(queryId, run.runId, operatorId)
    ElasticSpec(
      OperatorSpec(
        key,
        RowWiseExec.Name,
        batchId.getOrElse(0L),
        realTime,
        HandoffMode.Dealt,
        partitions,
        options,
        upstream(Seq(laneInput.child)),
        partitions,
        run.knows(operatorId)
      ),
      Seq(InputSpec(laneInput.output.map(_.dataType), Literal(0))),
      output.map(_.dataType),
      Map.empty,
      Set.empty,
      StateMetrics(Set.empty, Set.empty, Set.empty, Set.empty),
      sentAt,
      slots,
      readsAhead = nodes.exists(_.isInstanceOf[EvalPythonExec]),
      usesPython = Elasticity.usesPython(nodes),
      commitsFirst = false
    )
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

object RowWiseExec {

  /** What operators of this kind are called where stateful ones have the name of their state. */
  val Name = "rowWise"
}
