package org.apache.spark.sql.laneshift.runtime

import org.HdrHistogram.{Histogram, Recorder}

import org.apache.spark.sql.laneshift.spec.ElasticSpec

import laneshift.lane.InletStats
import laneshift.routing.Handoff

/** Counts what a partition does, from batch to batch, and samples it. The partition's lock guards it. */
private[runtime] final class PartitionMeter(initial: ElasticSpec) {
  private val pauses = new Histogram(1L, 3600L * 1000 * 1000 * 1000, 3)
  private val latencies = new Recorder(BatchMeter.LongestMs, 2)
  private val hotKeys = new HotKeys
  private var keys = Seq.empty[KeySampler]
  private var batch = new BatchMeter(initial, latencies, keys)
  private var flowBefore = Flow(0L, 0L, 0L)
  private var countsBefore = Counts.none
  private var handoffCount = 0L
  private var sample = RateSample.none
  private var latency = latencies.getIntervalHistogram
  private var latencySinceNs = 0L

  // What the histograms say until they change: to ask one is to walk through all of its counts.
  private var pausesSaid = Option.empty[PauseView]
  private var latencySaid = Option.empty[LatencyView]

  /** Whether the last session that worked has counted commits as work. */
  var countsCommits = false

  /** What its stores said at their last commit. */
  var state: StateView = StateView.none

  /** What counts the rows of the batch that is about to start. */
  def newBatch(spec: ElasticSpec): BatchMeter = {
    flowBefore = flow
    hotKeys.batchBegins()
    // From batch to batch, or short ones would be sampled by their first rows.
    keys =
      if (!spec.countsKeys) Nil
      else
        spec.inputs.zipWithIndex.map { case (input, i) =>
          keys.lift(i).filter(_.input == input).getOrElse(new KeySampler(input, hotKeys))
        }
    batch = new BatchMeter(spec, latencies, keys)
    batch
  }

  def hottest: Seq[HotKey] = hotKeys.top

  /** The hottest key's share of the batch's work: of its rows or, where rows of several inputs meet, of their matches. None if keys
    * are not counted.
    */
  def hottestOfBatch(spec: ElasticSpec): Option[Double] =
    if (spec.inputs.size > 1) hotKeys.hottestOfMatches else hotKeys.hottestOfBatch

  /** Since the query started, the batch that runs included. */
  def flow: Flow = flowBefore + Flow(batch.out.rows, batch.in.bytes, batch.out.bytes)

  /** What has gone by in this batch, without a look at lanes that have threads. */
  def passed(nowNs: Long, session: Session): Passed =
    Passed(nowNs, batch.in.rows, batch.out.rows, session.directNs)

  def counts(session: Session, stats: Option[InletStats]): Counts = countsBefore + session.counts(stats)

  /** The session is over: what it has counted stays. */
  def ended(session: Session): Unit = {
    countsBefore = counts(session, session.stats)
    if (session.isWorking) countsCommits = session.countsCommits
  }

  def handedOff(handoff: Handoff): Unit = {
    handoffCount += 1
    if (handoff.begunNs != 0L) {
      pauses.recordValue(math.max(1L, handoff.pauseNs))
      pausesSaid = None
    }
  }

  def tick(session: Session, nowNs: Long): Unit = {
    if (nowNs - sample.last.atNs >= RateSample.EveryNs) {
      val now = counts(session, session.stats)
      sample = sample.next(Sampled(nowNs, now.rowsIn, flow, now.busyNs, handoffCount))
    }
    if (nowNs - latencySinceNs >= PartitionMeter.LatencyNs) {
      latency = latencies.getIntervalHistogram(latency)
      latencySinceNs = nowNs
      latencySaid = None
    }
  }

  def handoffs: Long = handoffCount
  def rates: RateSample = sample

  def pauseView: PauseView = pausesSaid.getOrElse {
    val said = PauseView(
      pauses.getValueAtPercentile(50) / 1e3,
      pauses.getValueAtPercentile(99) / 1e3,
      pauses.getMaxValue / 1e3,
      pauses.getTotalCount
    )
    pausesSaid = Some(said)
    said
  }

  def latencyView: LatencyView = latencySaid.getOrElse {
    val said = LatencyView(
      latency.getMean,
      latency.getValueAtPercentile(50).toDouble,
      latency.getValueAtPercentile(99).toDouble,
      latency.getMaxValue.toDouble,
      latency.getTotalCount
    )
    latencySaid = Some(said)
    said
  }
}

private object PartitionMeter {

  /** Latencies are those of spans of this length. */
  private val LatencyNs = 10000000000L
}
