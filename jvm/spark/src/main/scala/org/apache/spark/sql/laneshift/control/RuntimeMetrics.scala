package org.apache.spark.sql.laneshift.control

import com.codahale.metrics.{Gauge, MetricRegistry}

/** What an executor's elastic partitions do, for Spark's metrics system: sums over its partitions, and the longest pause.
  * docs/scheduling.md lists the names.
  */
private[laneshift] object RuntimeMetrics {

  private val gauges: Seq[(String, Seq[PartitionView] => Double)] = Seq(
    "partitions" -> (_.size.toDouble),
    "lanes" -> (_.map(_.lanes).sum.toDouble),
    "rowsIn" -> (_.map(_.rowsIn).sum.toDouble),
    "rowsOut" -> (_.map(_.rowsOut).sum.toDouble),
    "busySeconds" -> (_.map(_.busyNs.sum).sum / 1e9),
    "blockedSeconds" -> (_.map(_.blockedNs).sum / 1e9),
    "queuedBytes" -> (_.map(_.queueBytes.sum).sum.toDouble),
    "handoffs" -> (_.map(_.handoffs).sum.toDouble),
    "pauseP99Ms" -> (_.map(_.pauseUs.p99).maxOption.getOrElse(0.0) / 1e3)
  )

  def register(registry: MetricRegistry, runtime: ElasticRuntime): Unit = gauges.foreach {
    case (name, read) =>
      registry.register(
        name,
        new Gauge[Double] { override def getValue: Double = read(runtime.all.map(_.view)) }
      )
  }
}
