package org.apache.spark.sql.laneshift.plan

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/** Says in EXPLAIN and in the SQL tab why the stateful operator below is not elastic. Does nothing else.
  *
  * @param ourStores its stores are opened by laneshift's provider, as those of other operators of the query
  */
case class StockExec(why: String, child: SparkPlan, ourStores: Boolean) extends UnaryExecNode {
  override def nodeName: String = "StockStateful"
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doExecute(): RDD[InternalRow] =
    if (ourStores) QueryStores.within(conf)(child.execute()) else child.execute()
  override def simpleString(maxFields: Int): String = s"$nodeName (not elastic: $why)"
  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}
