package org.apache.spark.sql.laneshift.driver

import com.codahale.metrics.MetricRegistry

import org.apache.spark.sql.laneshift.rescale.LiveRescale
import org.apache.spark.sql.laneshift.runtime.RuntimeMetrics

/** The same as an executor's metrics, but of all elastic partitions of the application, and what its queries have: the
  * driver's, under `application`.
  */
private[laneshift] object ApplicationMetrics {

  private val ofQueries: Seq[(String, Seq[Run] => Double)] = Seq(
    "queries" -> (_.size.toDouble),
    "backlogRows" -> (_.flatMap(_.batch).flatMap(_.sources).flatMap(_.backlogRows).sum.toDouble)
  )

  private val ofRescales: Seq[(String, Seq[LiveRescale] => Double)] = Seq(
    "rescales" -> (_.size.toDouble),
    "rescaleStoresWritten" -> (_.map(_.progress._1).sum.toDouble),
    "rescaleStores" -> (_.map(_.progress._2).sum.toDouble),
    "rescaleLagBatches" -> (_.map(_.lag.toDouble).maxOption.getOrElse(0.0))
  )

  private val ofCores: Seq[(String, Seq[ExecutorLoad] => Double)] =
    Seq("idleCores" -> (_.map(_.idleCores).sum.toDouble))

  private val Application = "application."

  /** The gauges' names, an executor's and then the driver's. */
  val names: Seq[String] = {
    val executors = RuntimeMetrics.ofPartitions.map(_._1) ++ RuntimeMetrics.ofExecutors.map(_._1)
    val driver = Seq(ofQueries, ofCores, ofRescales).flatMap(_.map(_._1))
    executors ++ (executors ++ driver).map(Application + _)
  }

  /** A scrape asks executors once, if the newest look is not of just now; the first of its gauges waits for them. */
  def register(registry: MetricRegistry, state: DriverState): Unit = {
    def gauges[T](all: Seq[(String, T => Double)])(now: => T): Unit =
      RuntimeMetrics.register(registry, Application, all, now)
    gauges(RuntimeMetrics.ofPartitions)(state.looks.newest.sites.map(_.view))
    gauges(RuntimeMetrics.ofExecutors)(state.looks.newest.loads.flatMap(_.said))
    gauges(ofCores)(state.looks.newest.loads)
    gauges(ofQueries)(state.runs.all)
    gauges(ofRescales)(state.runs.rescales)
  }
}
