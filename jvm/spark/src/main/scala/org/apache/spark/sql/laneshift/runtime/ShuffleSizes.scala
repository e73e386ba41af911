package org.apache.spark.sql.laneshift.runtime

import scala.util.control.NonFatal

import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.execution.ShuffledRowRDD
import org.apache.spark.storage.ShuffleBlockId

/** What a stage's shuffles hold for each of its partitions, as their map tasks have told: compressed bytes, within ten per cent. */
private[runtime] object ShuffleSizes extends Logging {

  /** None where there is no such thing: Real-time Mode's shuffles have no end. */
  def of(inputs: Seq[RDD[_]], partitions: Int): Option[Array[Long]] =
    try {
      val shuffles = inputs.collect { case s: ShuffledRowRDD => s.dependency.shuffleId }
      Option.when(shuffles.nonEmpty && shuffles.size == inputs.size)(sum(shuffles, partitions))
    } catch {
      case NonFatal(error) =>
        logWarning("The sizes of a shuffle's partitions are not known; each partition has one lane.", error)
        None
    }

  private def sum(shuffles: Seq[Int], partitions: Int): Array[Long] = {
    val bytes = new Array[Long](partitions)
    for {
      id <- shuffles
      (_, blocks) <- SparkEnv.get.mapOutputTracker.getMapSizesByExecutorId(id, 0, Int.MaxValue, 0, partitions)
      (ShuffleBlockId(_, _, partition), size, _) <- blocks
    } bytes(partition) += size
    bytes
  }
}
