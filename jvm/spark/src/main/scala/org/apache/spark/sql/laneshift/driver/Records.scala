package org.apache.spark.sql.laneshift.driver

import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.sql.laneshift.runtime.{HandoffRecord, PartitionView}

/** What the tab shows of a partition at one moment. As all records here it is also written to Spark's event log as JSON by
  * Jackson, which forgets the type of a number inside a generic class: numbers stand in fields and arrays.
  */
final case class PartitionRecord(
    index: Int,
    executor: String,
    host: String,
    running: Boolean,
    rowsIn: Long,
    rowsOut: Long,
    rowsInPerSecond: Double,
    rowsOutPerSecond: Double,
    bytesInPerSecond: Double,
    bytesOutPerSecond: Double,
    stateRows: Long,
    stateBytes: Long,
    handoffs: Long,
    pauses: Long,
    pauseP50Us: Double,
    pauseP99Us: Double,
    latencies: Long,
    latencyP50Ms: Double,
    latencyP99Ms: Double,
    laneBusy: Array[Double],
    queueRows: Array[Long],
    loads: Array[Double],
    routing: Array[Int],
    elsewhere: Array[String],
    hotKeys: Array[String],
    hotShares: Array[Double]
) {
  def lanes: Int = laneBusy.length

  /** The other executor that runs a lane. Records of before there were such lanes say nothing. */
  def executorOf(lane: Int): Option[String] =
    Option(elsewhere).flatMap(_.lift(lane)).filter(_.nonEmpty)

  /** Keys with much of its rows, and their shares. Older records say nothing, either. */
  def hottest: Seq[(String, Double)] =
    Option(hotKeys).zip(Option(hotShares)).toSeq.flatMap { case (keys, shares) => keys.zip(shares) }
}

/** An elastic operator: sums over its partitions, and in a whole record each of them. */
final case class OperatorRecord(
    operatorId: Long,
    name: String,
    realTime: Boolean,
    handoff: String,
    lanes: Int,
    rowsIn: Long,
    queuedRows: Long,
    tasks: Int,
    partitions: Seq[PartitionRecord]
) {
  def brief: OperatorRecord = copy(partitions = Nil)
}

final case class QueryRecord(
    id: String,
    runId: String,
    name: Option[String],
    operators: Seq[OperatorRecord]
) {
  def brief: QueryRecord = copy(operators = operators.map(_.brief))
  def title: String = name.fold(id)(n => s"$n ($id)")
}

private[laneshift] object QueryRecord {

  /** Those that have elastic operators. */
  def of(queries: Seq[QueryView]): Seq[QueryRecord] =
    queries.filter(_.operators.nonEmpty).map { query =>
      QueryRecord(query.run.id, query.run.runId, query.run.name, query.operators.map(operator))
    }

  private def operator(sites: Seq[PartitionSite]): OperatorRecord = {
    val views = sites.map(_.view)
    val spec = views.head.spec
    OperatorRecord(
      spec.key.operatorId,
      spec.name,
      spec.realTime,
      spec.handoff.name,
      views.map(_.lanes).sum,
      views.map(_.rowsIn).sum,
      views.map(_.queueRows.sum).sum,
      spec.tasks,
      sites.map(partition)
    )
  }

  private def partition(site: PartitionSite): PartitionRecord = {
    val v = site.view
    PartitionRecord(
      v.index,
      site.executor.id,
      site.executor.host,
      v.running,
      v.rowsIn,
      v.rowsOut,
      v.rowsInPerSecond,
      v.rowsOutPerSecond,
      v.bytesInPerSecond,
      v.bytesOutPerSecond,
      v.state.rows,
      v.state.memoryBytes + v.state.fileBytes,
      v.handoffs,
      v.pauseUs.count,
      v.pauseUs.p50,
      v.pauseUs.p99,
      v.latencyMs.count,
      v.latencyMs.p50,
      v.latencyMs.p99,
      v.laneBusy.padTo(v.lanes, 0.0).take(v.lanes),
      v.queueRows.padTo(v.lanes, 0L).take(v.lanes),
      v.loads,
      v.routing,
      elsewhere(v),
      v.hotKeys.map(k => k.value.getOrElse(s"#${k.key}")).toArray,
      v.hotKeys.map(_.share).toArray
    )
  }

  /** By lane, the other executor that runs it, or nothing. */
  private def elsewhere(view: PartitionView): Array[String] = {
    val executors = view.elsewhere.filter(_.open).map(r => r.lane -> r.executorId).toMap
    Array.tabulate(view.lanes)(executors.getOrElse(_, ""))
  }
}

/** All elastic queries at one moment, and the newest of the moves since the sample before. */
final case class LaneshiftSample(
    timeMs: Long,
    queries: Seq[QueryRecord],
    moves: Seq[HandoffRecord]
) extends SparkListenerEvent

/** What an autoscaler has decided. */
final case class LaneshiftDecided(decision: Decision) extends SparkListenerEvent
