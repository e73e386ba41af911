package org.apache.spark.sql.laneshift.runtime

import java.util.ArrayDeque

import scala.jdk.CollectionConverters._

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
  * them together have worked on rows, without commits, the time from the task's beginning to its end, waits for turns among
  * partitions of one task left out, and whether it had its lanes from its first row on.
  */
final case class BatchRecord(
    batchId: Long,
    lanes: Int,
    rows: Long,
    busyNs: Long,
    tookNs: Long,
    isWhole: Boolean
) {
  def rowsPerS: Double = rows * 1e9 / math.max(1L, tookNs)
}

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

/** What a partition has done since the query started, or between two moments: `laneRows` and `busyNs` by lane; `blockedNs` is how
  * long its input waited for room.
  */
private[laneshift] final case class Counts(
    rowsIn: Long = 0L,
    rowsOut: Long = 0L,
    bytesIn: Long = 0L,
    bytesOut: Long = 0L,
    laneRows: Array[Long] = Array.empty,
    busyNs: Array[Long] = Array.empty,
    blockedNs: Long = 0L,
    handoffs: Long = 0L
) {
  def +(more: Counts): Counts = zip(more)(_ + _)
  def -(before: Counts): Counts = zip(before)(_ - _)

  private def zip(other: Counts)(f: (Long, Long) => Long): Counts = {
    def each(a: Array[Long], b: Array[Long]) = a.zipAll(b, 0L, 0L).map { case (x, y) => f(x, y) }
    Counts(
      f(rowsIn, other.rowsIn),
      f(rowsOut, other.rowsOut),
      f(bytesIn, other.bytesIn),
      f(bytesOut, other.bytesOut),
      each(laneRows, other.laneRows),
      each(busyNs, other.busyNs),
      f(blockedNs, other.blockedNs),
      f(handoffs, other.handoffs)
    )
  }
}

/** Counters at one moment, and what has been counted since the moment before it, half a second or so ago: in no time if there is none. */
private[laneshift] final case class RateSample(atNs: Long, at: Counts, tookNs: Long, since: Counts) {
  def next(nowNs: Long, now: Counts): RateSample =
    RateSample(nowNs, now, if (atNs == 0L) 0L else nowNs - atNs, now - at)

  def perSecond(counter: Counts => Long): Double = if (tookNs == 0L) 0.0 else counter(since) * 1e9 / tookNs

  /** The share of time that each lane worked. */
  def busy: Array[Double] =
    if (tookNs == 0L) Array.empty
    else since.busyNs.map(ns => math.max(0.0, math.min(1.0, ns.toDouble / tookNs)))
}

private[laneshift] object RateSample {
  val EveryNs: Long = 500000000L
  val none: RateSample = RateSample(0L, Counts(), 0L, Counts())
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
  def newest(limit: Int)(wanted: HandoffRecord => Boolean): Seq[(Long, HandoffRecord)] =
    synchronized(records.descendingIterator.asScala.filter(r => wanted(r._2)).take(limit).toSeq).reverse
}
