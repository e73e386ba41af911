package org.apache.spark.sql.laneshift.driver

import com.codahale.metrics.MetricRegistry

import org.apache.spark.sql.laneshift.rescale.LiveRescale
import org.apache.spark.sql.laneshift.runtime.RuntimeMetrics

/** The same as an executor's metrics, but of all elastic partitions of the application, and what its queries have: the
  * driver's, under `application`.
  */
private[laneshift] object ApplicationMetrics {

  private val ofQueries: Seq[(String, Seq[QueryRun] => Double)] = Seq(
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

  def register(registry: MetricRegistry, state: DriverState): Unit = {
    RuntimeMetrics.register(
      registry,
      Application,
      RuntimeMetrics.ofPartitions,
      new RuntimeMetrics.Recent(() => state.executors.partitions().map(_.view))
    )
    RuntimeMetrics.register(
      registry,
      Application,
      RuntimeMetrics.ofExecutors,
      new RuntimeMetrics.Recent(() => state.executors.views())
    )
    RuntimeMetrics.register(
      registry,
      Application,
      ofCores,
      new RuntimeMetrics.Recent(() => state.executors.inventory())
    )
    RuntimeMetrics.register(
      registry,
      Application,
      ofQueries,
      new RuntimeMetrics.Recent(() => state.queries.active)
    )
    RuntimeMetrics.register(
      registry,
      Application,
      ofRescales,
      new RuntimeMetrics.Recent(() => state.rescales.underWay)
    )
  }
}
