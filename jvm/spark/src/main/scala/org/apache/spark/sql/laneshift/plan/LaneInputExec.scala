package org.apache.spark.sql.laneshift.plan

import org.apache.spark.{Partition, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.laneshift.body.LaneContext

/** Where an elastic region begins: below it is a shuffle or, if its rows are `dealt`, a source or an operator's state; above it what every lane runs. Keeps what is below in the tree, so
  * that everything that walks the plan finds it; executing it gives the current lane's rows. A region has as many as it has
  * inputs, numbered by `index`.
  */
case class LaneInputExec(child: SparkPlan, index: Int, dealt: Boolean = false) extends UnaryExecNode {
  override def nodeName: String = "LaneInput"
  override def simpleString(maxFields: Int): String = s"$nodeName $index"
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doExecute(): RDD[InternalRow] = {
    // Sources do not always tell how many partitions they have, nor do regions, whose RDDs are made once.
    val partitions = if (dealt) child.execute().getNumPartitions else outputPartitioning.numPartitions
    new LaneInputRDD(session.sparkContext, partitions, index)
  }
  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

private[laneshift] final case class LanePartition(index: Int) extends Partition

/** A leaf of a lane's body: the rows of one input for the lane that computes it. */
private[laneshift] final class LaneInputRDD(sc: SparkContext, partitionCount: Int, index: Int)
    extends RDD[InternalRow](sc, Nil) {
  override protected def getPartitions: Array[Partition] = Array.tabulate(partitionCount)(LanePartition(_))

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    LaneContext.get
      .getOrElse(throw new IllegalStateException("lane input is read outside a lane"))
      .input(index)
}
