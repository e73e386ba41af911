package org.apache.spark.sql.laneshift.rescale

import scala.reflect.ClassTag

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD

/** Another RDD, whose tasks would rather run somewhere.
  *
  * @param places locations of a partition's task, asked for on the driver when a job begins
  */
private[rescale] final class PlacedRDD[T: ClassTag](of: RDD[T], @transient places: Int => Seq[String])
    extends RDD[T](of) {
  override protected def getPartitions: Array[Partition] = firstParent[T].partitions

  override protected def getPreferredLocations(split: Partition): Seq[String] = places(split.index)

  override def compute(split: Partition, context: TaskContext): Iterator[T] =
    firstParent[T].iterator(split, context)
}
