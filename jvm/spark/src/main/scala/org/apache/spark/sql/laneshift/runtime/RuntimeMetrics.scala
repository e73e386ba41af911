package org.apache.spark.sql.laneshift.runtime

import com.codahale.metrics.{Gauge, MetricRegistry}

/** What elastic partitions do, for Spark's metrics system: sums over partitions, and the longest pause and latency. Each
  * executor gives those of its own partitions. docs/metrics.md says what they are.
  */
private[laneshift] object RuntimeMetrics {

  val ofPartitions: Seq[(String, Seq[PartitionView] => Double)] = Seq(
    "partitions" -> (_.size.toDouble),
    "lanes" -> (_.map(_.lanes).sum.toDouble),
    "busyLanes" -> (_.map(_.laneBusy.sum).sum),
    "rowsIn" -> (_.map(_.rowsIn).sum.toDouble),
    "rowsOut" -> (_.map(_.rowsOut).sum.toDouble),
    "rowsInPerSecond" -> (_.map(_.rowsInPerSecond).sum),
    "rowsOutPerSecond" -> (_.map(_.rowsOutPerSecond).sum),
    "bytesIn" -> (_.map(_.bytesIn).sum.toDouble),
    "bytesOut" -> (_.map(_.bytesOut).sum.toDouble),
    "bytesInPerSecond" -> (_.map(_.bytesInPerSecond).sum),
    "bytesOutPerSecond" -> (_.map(_.bytesOutPerSecond).sum),
    "busySeconds" -> (_.map(_.busyNs).sum / 1e9),
    "blockedSeconds" -> (_.map(_.blockedNs).sum / 1e9),
    "queuedRows" -> (_.map(_.queueRows.sum).sum.toDouble),
    "queuedBytes" -> (_.map(_.queueBytes.sum).sum.toDouble),
    "handoffs" -> (_.map(_.handoffs).sum.toDouble),
    "handoffsPerSecond" -> (_.map(_.handoffsPerSecond).sum),
    "pauseP99Ms" -> (_.map(_.pauseUs.p99).maxOption.getOrElse(0.0) / 1e3),
    "stateRows" -> (_.map(_.state.rows).sum.toDouble),
    "stateMemoryBytes" -> (_.map(_.state.memoryBytes).sum.toDouble),
    "stateFileBytes" -> (_.map(_.state.fileBytes).sum.toDouble),
    "latencyP99Ms" -> (_.map(_.latencyMs.p99).maxOption.getOrElse(0.0))
  )

  /** What executors say of themselves: cores, and what went over connections to lanes on other ones. */
  val ofExecutors: Seq[(String, Seq[ExecutorView] => Double)] = Seq[(String, ExecutorView => Long)](
    "homeLanes" -> (_.homeLanes.toLong),
    "hostLanes" -> (_.hostLanes.toLong),
    "remoteKeptBytes" -> (_.keptBytes),
    "remoteRows" -> (_.rowsSent),
    "remoteFrames" -> (_.frames),
    "remoteStateReads" -> (_.stateReads),
    "remoteBytesSent" -> (_.bytesSent),
    "remoteBytesReceived" -> (_.bytesReceived),
    "remoteLostHosts" -> (_.lostHosts)
  ).map { case (name, read) => name -> ((views: Seq[ExecutorView]) => views.map(read).sum.toDouble) }

  def registerExecutor(registry: MetricRegistry, runtime: ElasticRuntime): Unit = {
    val partitions = new Recent(() => runtime.all.map(_.view))
    register(registry, "", ofPartitions, partitions.get)
    val here = new Recent(() => Seq(runtime.view))
    register(registry, "", ofExecutors, here.get)
  }

  def register[T](
      registry: MetricRegistry,
      prefix: String,
      gauges: Seq[(String, T => Double)],
      now: => T
  ): Unit = gauges.foreach { case (name, read) =>
    val gauge = new Gauge[Double] { override def getValue: Double = read(now) }
    registry.register(prefix + name, gauge)
  }

  /** The gauges of one scrape are of one moment, and read once, however long that takes; so do several scrapes at a time. */
  final class Recent[T](read: () => T, nowNs: () => Long = () => System.nanoTime()) {
    private var value: Option[T] = None
    private var readNs = 0L

    def get: T = synchronized {
      if (value.isEmpty || nowNs() - readNs > Recent.ForNs) {
        value = Some(read())
        readNs = nowNs()
      }
      value.get
    }
  }

  private object Recent {
    val ForNs: Long = 500000000L
  }
}
