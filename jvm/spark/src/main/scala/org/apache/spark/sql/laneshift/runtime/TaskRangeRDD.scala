package org.apache.spark.sql.laneshift.runtime

import org.apache.spark.{NarrowDependency, Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.laneshift.lane.RangeTask
import org.apache.spark.sql.laneshift.spec.ElasticSpec
import org.apache.spark.sql.laneshift.wire.RpcBytes

import laneshift.routing.TaskRanges

/** The partitions of an elastic operator, computed in fewer tasks than there are: a range of them in each.
  *
  * @param elastic stays on the driver
  * @param bytes the same for the executors, where each partition reads a copy of its own: what it counts is its own then
  */
private[laneshift] final class TaskRangeRDD(
    @transient private val elastic: RDD[InternalRow],
    bytes: Array[Byte],
    spec: ElasticSpec,
    ranges: TaskRanges
) extends RDD[InternalRow](elastic.sparkContext, Seq(new RangeDependency(elastic, ranges))) {

  override protected def getPartitions: Array[Partition] = {
    val all = elastic.partitions
    Array.tabulate(ranges.tasks)(task => RangeSplit(task, ranges.of(task), ranges.of(task).map(all)))
  }

  /** Where most of the partitions are. */
  override protected def getPreferredLocations(split: Partition): Seq[String] = {
    val places = ranges.of(split.index).flatMap(i => elastic.preferredLocations(elastic.partitions(i)))
    places.groupBy(identity).toSeq.sortBy(-_._2.size).take(1).map(_._1)
  }

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val RangeSplit(_, numbers, splits) = split.asInstanceOf[RangeSplit]
    val loader = Thread.currentThread.getContextClassLoader
    def rows(index: Int, own: TaskContext) =
      RpcBytes.read[RDD[InternalRow]](bytes, loader).iterator(splits(index), own)
    new RangeTask(spec, context, numbers, rows).start()
  }
}

private final class RangeDependency(@transient private val elastic: RDD[InternalRow], ranges: TaskRanges)
    extends NarrowDependency[InternalRow](null) {
  override def rdd: RDD[InternalRow] = elastic
  override def getParents(task: Int): Seq[Int] = ranges.of(task)
}

private final case class RangeSplit(index: Int, numbers: Range, splits: Seq[Partition]) extends Partition
