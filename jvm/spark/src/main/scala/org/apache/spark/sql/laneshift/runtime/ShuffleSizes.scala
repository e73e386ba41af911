package org.apache.spark.sql.laneshift.runtime

import scala.util.control.NonFatal

import org.apache.spark.{MapOutputTrackerMaster, MapOutputTrackerWorker, SparkEnv}
import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.sql.execution.ShuffledRowRDD

/** What a stage's shuffles hold for each of its partitions, as their map tasks have told: compressed bytes, within ten per cent.
  * In this package because what map tasks have told is private to Spark.
  */
private[runtime] object ShuffleSizes extends Logging {

  /** To read so many takes a few milliseconds. */
  val MostSizes: Int = 1 << 16

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
    shuffles.map(statuses).foreach(maps => add(maps.length, bytes)(maps(_).getSizeForBlock(_)))
    bytes
  }

  /** Adds what so many map tasks have told. Of many with many partitions some stand for all, or reading would itself take as long as
    * little tasks do.
    */
  def add(maps: Int, bytes: Array[Long])(size: (Int, Int) => Long): Unit = if (maps > 0) {
    val read = math.max(1, math.min(maps, MostSizes / bytes.length))
    val those = Array.tabulate(read)(i => (i.toLong * maps / read).toInt)
    bytes.indices.foreach { partition =>
      var sum = 0L
      those.foreach(map => sum += size(map, partition))
      bytes(partition) += sum * maps / read
    }
  }

  private def statuses(shuffle: Int): Array[MapStatus] = SparkEnv.get.mapOutputTracker match {
    case driver: MapOutputTrackerMaster =>
      driver.shuffleStatuses(shuffle).withMapStatuses(_.filter(_ != null))
    case executor =>
      // To ask for one partition is to have all maps told, once.
      executor.getMapSizesByExecutorId(shuffle, 0)
      executor.asInstanceOf[MapOutputTrackerWorker].mapStatuses(shuffle)
  }
}
