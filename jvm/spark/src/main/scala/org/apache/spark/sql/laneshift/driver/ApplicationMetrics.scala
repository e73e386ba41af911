package org.apache.spark.sql.laneshift.driver

import com.codahale.metrics.MetricRegistry

import org.apache.spark.sql.laneshift.runtime.RuntimeMetrics

/** The same as an executor's metrics, but of all elastic partitions of the application, and what its queries have: the
  * driver's, under `application`.
  */
private[laneshift] object ApplicationMetrics {

  private val ofQueries: Seq[(String, Seq[QueryRun] => Double)] = Seq(
    "queries" -> (_.size.toDouble),
    "backlogRows" -> (_.flatMap(_.batch).flatMap(_.sources).flatMap(_.backlogRows).sum.toDouble)
  )

  private val Application = "application."

  /** The gauges' names, an executor's and then the driver's. */
  val names: Seq[String] =
    RuntimeMetrics.ofPartitions.map(
      _._1
    ) ++ (RuntimeMetrics.ofPartitions.map(_._1) ++ ofQueries.map(_._1)).map(Application + _)

  def register(registry: MetricRegistry): Unit = {
    RuntimeMetrics.register(
      registry,
      Application,
      RuntimeMetrics.ofPartitions,
      new RuntimeMetrics.Recent(() => ExecutorDirectory.partitions().map(_.view))
    )
    RuntimeMetrics.register(
      registry,
      Application,
      ofQueries,
      new RuntimeMetrics.Recent(() => QueryInventory.all.filter(_.active))
    )
  }
}
