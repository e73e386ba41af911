package org.apache.spark.sql.laneshift.runtime

import scala.collection.mutable

import org.apache.spark.{NarrowDependency, Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.laneshift.lane.{LaneCpu, RangeTask}
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

  private[laneshift] val laneCpu = LaneCpu.of(sparkContext)

  override protected def getPartitions: Array[Partition] = {
    val all = elastic.partitions
    Array.tabulate(ranges.tasks)(task => RangeSplit(task, ranges.of(task), ranges.of(task).map(all)))
  }

  override protected def getPreferredLocations(split: Partition): Seq[String] = places(split.index)

  /** Asked for by every task of a batch, and the same for all of them. */
  @transient private lazy val places: IndexedSeq[Seq[String]] =
    TaskRangeRDD.places(ranges, elastic.partitions.toIndexedSeq.map(elastic.preferredLocations))

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val RangeSplit(_, numbers, splits) = split.asInstanceOf[RangeSplit]
    val loader = Thread.currentThread.getContextClassLoader
    def rows(index: Int, own: TaskContext) =
      RpcBytes.read[RDD[InternalRow]](bytes, loader).iterator(splits(index), own)
    new RangeTask(spec, context, numbers, rows).start()
  }
}

private[laneshift] object TaskRangeRDD {

  /** Where each task is to run: where most of its partitions are, so that as few stores as can be change executors. Of places
    * that have as many, the one to which the fewest tasks go.
    *
    * @param at where each partition is
    */
  def places(ranges: TaskRanges, at: IndexedSeq[Seq[String]]): IndexedSeq[Seq[String]] = {
    val going = mutable.Map.empty[String, Int].withDefaultValue(0)
    (0 until ranges.tasks).map { task =>
      val there = ranges.of(task).flatMap(at).groupMapReduce(identity)(_ => 1)(_ + _)
      val best = there.filter(_._2 == there.values.max).keys.toSeq
      val place = best.sortBy(p => (going(p), p)).headOption
      place.foreach(going(_) += 1)
      place.toSeq
    }
  }
}

private final class RangeDependency(@transient private val elastic: RDD[InternalRow], ranges: TaskRanges)
    extends NarrowDependency[InternalRow](null) {
  override def rdd: RDD[InternalRow] = elastic
  override def getParents(task: Int): Seq[Int] = ranges.of(task)
}

private final case class RangeSplit(index: Int, numbers: Range, splits: Seq[Partition]) extends Partition
