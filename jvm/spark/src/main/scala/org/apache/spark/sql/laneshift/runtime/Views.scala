package org.apache.spark.sql.laneshift.runtime

import java.util.ArrayDeque

import org.apache.spark.sql.laneshift.lane.RemoteLaneView
import org.apache.spark.sql.laneshift.spec.{OperatorKey, OperatorSpec}

import laneshift.routing.Handoff

/** Pauses of handoffs in microseconds. */
final case class PauseView(p50: Double, p99: Double, max: Double, count: Long)

private[laneshift] object PauseView {
  val none: PauseView = PauseView(0.0, 0.0, 0.0, 0L)
}

/** How old outputs were when they left the operator, in milliseconds, over the last full ten seconds. */
final case class LatencyView(mean: Double, p50: Double, p99: Double, max: Double, count: Long)

private[laneshift] object LatencyView {
  val none: LatencyView = LatencyView(0.0, 0.0, 0.0, 0.0, 0L)
}

/** What a partition's task has done in the newest batch that it has finished: `lanes` that it ended with, `busyNs` that all of
  * them together have worked on rows, without commits, and the time from the task's beginning to its end, waits for turns among
  * partitions of one task left out.
  */
final case class BatchRecord(batchId: Long, lanes: Int, rows: Long, busyNs: Long, tookNs: Long)

/** One partition at one moment. Arrays are by shard (`routing`, `loads`) or by lane; counters grow while the query runs. */
final case class PartitionView(
    spec: OperatorSpec,
    index: Int,
    running: Boolean,
    lanes: Int,
    wantedLanes: Int,
    auto: Boolean,
    lastBatch: Option[BatchRecord],
    routing: Array[Int],
    loads: Array[Double],
    rowsIn: Long,
    rowsOut: Long,
    bytesIn: Long,
    bytesOut: Long,
    rowsInPerSecond: Double,
    rowsOutPerSecond: Double,
    bytesInPerSecond: Double,
    bytesOutPerSecond: Double,
    laneBusy: Array[Double],
    laneRows: Array[Long],
    rowsTaken: Long,
    busyNs: Long,
    rowsTakenElsewhere: Long,
    busyElsewhereNs: Long,
    blockedNs: Long,
    queueRows: Array[Long],
    queueBytes: Array[Long],
    inFlight: Int,
    handoffs: Long,
    handoffsPerSecond: Double,
    pauseUs: PauseView,
    wantedElsewhere: Seq[(String, Int)],
    elsewhere: Seq[RemoteLaneView],
    elsewhereNote: Option[String],
    hotKeys: Seq[HotKey],
    state: StateView,
    latencyMs: LatencyView
)

/** What a partition has done since the query started: `laneRows` and `busyNs` by lane; `blockedNs` is how long its input waited
  * for room.
  */
private[laneshift] final case class Counts(
    rowsIn: Long,
    laneRows: Array[Long],
    busyNs: Array[Long],
    blockedNs: Long
) {
  def +(more: Counts): Counts = Counts(
    rowsIn + more.rowsIn,
    Counts.sum(laneRows, more.laneRows),
    Counts.sum(busyNs, more.busyNs),
    blockedNs + more.blockedNs
  )
}

private[laneshift] object Counts {
  val none: Counts = Counts(0L, Array.empty, Array.empty, 0L)

  def ofOneLane(rows: Long, busyNs: Long): Counts = Counts(rows, Array(rows), Array(busyNs), 0L)

  private def sum(a: Array[Long], b: Array[Long]): Array[Long] =
    a.zipAll(b, 0L, 0L).map { case (x, y) => x + y }
}

/** What a partition has put out and the bytes that went by, since the query started. */
private[laneshift] final case class Flow(rowsOut: Long, bytesIn: Long, bytesOut: Long) {
  def +(more: Flow): Flow = Flow(rowsOut + more.rowsOut, bytesIn + more.bytesIn, bytesOut + more.bytesOut)
}

/** Counters at one moment. */
private[laneshift] final case class Sampled(
    atNs: Long,
    rowsIn: Long,
    flow: Flow,
    busyNs: Array[Long],
    handoffs: Long
)

/** Counters at two moments, half a second or so from each other. */
private[laneshift] final case class RateSample(before: Sampled, last: Sampled) {
  private def seconds: Double = (last.atNs - before.atNs) / 1e9
  private def known: Boolean = before.atNs != 0L

  def next(now: Sampled): RateSample = RateSample(last, now)

  def perSecond(counter: Sampled => Long): Double =
    if (known) (counter(last) - counter(before)) / seconds else 0.0

  /** The share of time that each lane worked. */
  def busy: Array[Double] =
    if (!known) Array.empty
    else
      Array.tabulate(last.busyNs.length) { i =>
        val worked = last.busyNs(i) - (if (i < before.busyNs.length) before.busyNs(i) else 0L)
        math.max(0.0, math.min(1.0, worked / 1e9 / seconds))
      }
}

private[laneshift] object RateSample {
  val EveryNs: Long = 500000000L
  private val never = Sampled(0L, 0L, Flow(0L, 0L, 0L), Array.empty, 0L)
  val none: RateSample = RateSample(never, never)
}

/** A lane as the history of handoffs knows it: by its number inside and, if it is not at home, its executor; empty if it is. */
private[runtime] final case class LanePlace(lane: Int, executor: String)

/** A settled handoff, for the history. Times in nanoseconds, `timeMs` since 1970. The other executor that runs a lane is empty for
  * lanes at home, and null in records of before there was one.
  */
final case class HandoffRecord(
    key: OperatorKey,
    partition: Int,
    batchId: Long,
    id: Long,
    shard: Int,
    from: Int,
    fromExecutor: String,
    to: Int,
    toExecutor: String,
    reason: String,
    timeMs: Long,
    drainNs: Long,
    flushNs: Long,
    switchNs: Long,
    pauseNs: Long,
    movedRows: Long
)

object HandoffRecord {
  private[runtime] def of(
      key: OperatorKey,
      partition: Int,
      batchId: Long,
      h: Handoff,
      from: LanePlace,
      to: LanePlace
  ): HandoffRecord = HandoffRecord(
    key,
    partition,
    batchId,
    h.id,
    h.shard.value,
    from.lane,
    from.executor,
    to.lane,
    to.executor,
    h.reason.name,
    System.currentTimeMillis(),
    h.drainNs,
    h.flushNs,
    h.switchNs,
    h.pauseNs,
    h.movedRows
  )
}

/** The newest handoffs of one executor, oldest first, up to a bound. */
final class HandoffHistory(bound: Int) {
  private val records = new ArrayDeque[(Long, HandoffRecord)]
  private var next = 0L

  def add(record: HandoffRecord): Unit = synchronized {
    if (records.size == bound) records.pollFirst()
    records.addLast((next, record))
    next += 1
  }

  /** The newest `limit` that `wanted` takes, each with its running number. */
  def newest(limit: Int)(wanted: HandoffRecord => Boolean): Seq[(Long, HandoffRecord)] = synchronized {
    val found = Seq.newBuilder[(Long, HandoffRecord)]
    var left = limit
    val backwards = records.descendingIterator()
    while (left > 0 && backwards.hasNext) {
      val entry = backwards.next()
      if (wanted(entry._2)) {
        found += entry
        left -= 1
      }
    }
    found.result().reverse
  }
}
