package org.apache.spark.sql.laneshift.runtime

import org.HdrHistogram.{Histogram, Recorder}

import org.apache.spark.sql.laneshift.spec.ElasticSpec

import laneshift.lane.InletStats
import laneshift.routing.Handoff

/** Counts what a partition does, from batch to batch, and samples it. The partition's lock guards it. An executor has thousands of
  * partitions: what takes room, histograms above all, is made when there is something to count.
  */
private[runtime] final class PartitionMeter(initial: ElasticSpec) {
  private lazy val pauses = new Pauses
  private var latencies = Option.empty[Latencies]
  private val hotKeys = new HotKeys
  private var keys = Seq.empty[KeySampler]
  private var batch = meterOf(initial)

  /** Of sessions and batches that are over. */
  private var before = Counts()
  private val sampling = new Every(RateSample.EveryNs)
  private var sample = RateSample.none

  /** Whether the last session that worked has counted commits as work. */
  var countsCommits = false

  /** What its stores said at their last commit. */
  var state: StateView = StateView.none

  /** What counts the rows of the batch that is about to start. */
  def newBatch(spec: ElasticSpec): BatchMeter = {
    before += ofBatch
    hotKeys.batchBegins()
    // From batch to batch, or short ones would be sampled by their first rows.
    keys =
      if (!spec.countsKeys) Nil
      else
        spec.inputs.zipWithIndex.map { case (input, i) =>
          keys.lift(i).filter(_.input == input).getOrElse(new KeySampler(input, hotKeys))
        }
    batch = meterOf(spec)
    batch
  }

  private def meterOf(spec: ElasticSpec): BatchMeter = {
    if (spec.sentAt.nonEmpty && latencies.isEmpty) latencies = Some(new Latencies)
    new BatchMeter(spec, latencies.map(_.recorder), keys)
  }

  def hottest: Seq[HotKey] = hotKeys.top

  /** The hottest key's share of the batch's work: of its rows or, where rows of several inputs meet, of their matches. None if keys
    * are not counted.
    */
  def hottestOfBatch(spec: ElasticSpec): Option[Double] =
    if (spec.inputs.size > 1) hotKeys.hottestOfMatches else hotKeys.hottestOfBatch

  private def ofBatch =
    Counts(rowsOut = batch.out.rows, bytesIn = batch.in.bytes, bytesOut = batch.out.bytes)

  /** What has gone by in this batch, without a look at lanes that have threads. */
  def passed(nowNs: Long, session: Session): Passed =
    Passed(nowNs, batch.in.rows, batch.out.rows, session.directNs)

  /** Since the query started, the batch that runs included. */
  def counts(session: Session, stats: Option[InletStats]): Counts = before + ofBatch + session.counts(stats)

  /** The session is over: what it has counted stays. */
  def ended(session: Session): Unit = {
    before += session.counts(session.stats)
    if (session.isWorking) countsCommits = session.countsCommits
  }

  def handedOff(handoff: Handoff): Unit = {
    before = before.copy(handoffs = before.handoffs + 1)
    if (handoff.begunNs != 0L) pauses.add(handoff.pauseNs)
  }

  /** Whether there is a new sample of rates. */
  def tick(session: Session, nowNs: Long): Boolean = {
    latencies.foreach(_.tick(nowNs))
    val isDue = sampling.isDue(nowNs)
    if (isDue) sample = sample.next(nowNs, counts(session, session.stats))
    isDue
  }

  def rates: RateSample = sample
  def pauseView: PauseView = if (before.handoffs == 0L) PauseView.none else pauses.view
  def latencyView: LatencyView = latencies.fold(LatencyView.none)(_.view)
}

/** How long handoffs have paused their shards. */
private final class Pauses {
  // Two digits, and as long as the longest needs: room for an hour of three digits is a quarter of a megabyte.
  private val counts = new Histogram(2)

  /** Until the counts change: to ask them is to walk through all of them. */
  private var said = Option.empty[PauseView]

  def add(ns: Long): Unit = {
    counts.recordValue(math.max(1L, ns))
    said = None
  }

  def view: PauseView = {
    val now = said.getOrElse(PauseView(
      counts.getValueAtPercentile(50) / 1e3,
      counts.getValueAtPercentile(99) / 1e3,
      counts.getMaxValue / 1e3,
      counts.getTotalCount
    ))
    said = Some(now)
    now
  }
}

/** How old outputs are, of one span of time after the other. */
private final class Latencies {
  val recorder = new Recorder(BatchMeter.LongestMs, 2)
  private val spans = new Every(10000000000L)
  private var span = recorder.getIntervalHistogram

  /** Of the last span. */
  private var said = LatencyView.none

  def view: LatencyView = said

  def tick(nowNs: Long): Unit = if (spans.isDue(nowNs)) {
    span = recorder.getIntervalHistogram(span)
    said = LatencyView(
      span.getMean,
      span.getValueAtPercentile(50).toDouble,
      span.getValueAtPercentile(99).toDouble,
      span.getMaxValue.toDouble,
      span.getTotalCount
    )
  }
}
