package org.apache.spark.sql.laneshift.runtime

import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import org.HdrHistogram.{Histogram, Recorder}

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.laneshift.lane.{DirectLane, PartitionTask}
import org.apache.spark.sql.laneshift.spec.{ElasticSpec, HandoffMode}

import laneshift.ids.{LaneId, ShardId}
import laneshift.lane.{Inlet, InletStats}
import laneshift.planner._
import laneshift.routing.{Handoff, MoveReason, RoutingTable}

/** When a command takes effect. */
sealed abstract class Applied(val name: String)

object Applied {
  case object Now extends Applied("now")
  case object NextBatch extends Applied("next-batch")
}

/** How a partition begins a batch. */
final case class BatchStart(routing: Array[Int], lanes: Int)

/** What an executor remembers of one elastic partition from batch to batch: routing, wanted lanes, loads, handoffs. While a
  * task computes the partition, commands and the controller's decisions go to its inlet.
  *
  * Every method may be called by any thread. Lock order: this partition, then the inlet; the inlet calls back only where it
  * holds no lock, or to draw a handoff's id.
  */
final class ElasticPartition(initial: ElasticSpec, val index: Int, history: HandoffHistory, cores: Int) {
  private var current = initial
  private val shards = initial.options.shards
  private val planner: Planner = GreedyBalancer.triggered(initial.options.threshold)
  private val tracker = new LoadTracker(shards, 4L * initial.options.balanceIntervalMs * 1000000L)
  private val motion = new Motion(initial, index)
  private val pauses = new Histogram(1L, 3600L * 1000 * 1000 * 1000, 3)
  private val handoffIds = new AtomicLong

  private var wantedLanes =
    initial.options.lanes.getOrElse(
      math.min(initial.options.maxLanes, math.max(1, cores / initial.partitions))
    )
  private var routing = RoutingTable.roundRobin(shards, wantedLanes)
  private var batchLanes = wantedLanes
  private val wantedMoves = mutable.LinkedHashMap.empty[Int, Int]

  private var task: PartitionTask = _
  private var inlet: Inlet[_] = _
  private var direct: DirectLane = _
  private var stock: StockBatch = _
  private var before = Counts.none
  private var handoffCount = 0L
  private var lastBalanceNs = 0L
  private var lastMotionNs = 0L

  private val latencies = new Recorder(BatchMeter.LongestMs, 2)
  private var meter = new BatchMeter(initial, latencies)
  private var metered = Flow(0L, 0L, 0L)
  private var sample = RateSample.none
  private var state = StateView.none
  private var latency = latencies.getIntervalHistogram
  private var latencySinceNs = 0L

  @volatile private var touchedNs = System.nanoTime()

  /** CPU time by shard, sampled by the lanes; written without synchronisation, each shard by the lane that owns it. */
  val cpuNs = new Array[Long](shards)

  def spec: ElasticSpec = synchronized(current)
  def lastTouchedNs: Long = touchedNs
  def isRunning: Boolean = synchronized(task != null)
  def nextHandoffId(): Long = handoffIds.getAndIncrement()

  private def midBatch: Boolean = current.handoff != HandoffMode.BetweenBatches

  // ---- batches

  def newBatch(spec: ElasticSpec): Unit = synchronized {
    current = spec
    touchedNs = System.nanoTime()
    if (motion.isOn && inlet == null) motion.lanes().foreach(wantedLanes = _)
  }

  /** Lanes of the batch that is about to start. */
  def nextLanes: Int = synchronized(wantedLanes)

  /** What counts the rows of the batch that is about to start. */
  def newMeter(spec: ElasticSpec): BatchMeter = synchronized {
    metered = flow
    meter = new BatchMeter(spec, latencies)
    meter
  }

  /** Since the query started, the batch that runs included. */
  private def flow: Flow = metered + Flow(meter.out.rows, meter.in.bytes, meter.out.bytes)

  /** The task has ended, with its stores. */
  def noteState(task: TaskContext): Unit =
    StateView.reported(task, spec.stateMetrics).foreach(now => synchronized { state = now })

  /** Spark's own path over the whole batch. */
  def stockBatch(context: TaskContext, meter: BatchMeter, metrics: Map[String, SQLMetric])(
      body: => Iterator[InternalRow]
  ): Iterator[InternalRow] = {
    val batch = new StockBatch(meter.in)
    synchronized {
      routing = new Array[Int](shards)
      batchLanes = 1
      stock = batch
    }
    context.addTaskCompletionListener[Unit] { _ =>
      metrics("lanes").set(1)
      metrics("rowsIn") += batch.rows
      metrics("busiestLaneRows") += batch.rows
      synchronized {
        if (stock eq batch) detach()
      }
    }
    body
  }

  /** The routing and lanes of a batch; applies what was wanted since the last one. */
  def startBatch(by: PartitionTask): BatchStart = synchronized {
    task = by
    val before = routing.clone()
    val lanes = wantedLanes
    batchLanes = lanes
    if (lanes == 1) routing = new Array[Int](shards)
    else {
      val loads = if (tracker.isWarm) tracker.loads else Array.fill(shards)(0.0)
      routing = Rerouting.fit(routing, loads, lanes)
      if (current.options.balance && tracker.isWarm)
        planner.plan(loads, routing, lanes).foreach(m => routing(m.shard.value) = m.to.value)
      wantedMoves.foreach { case (shard, lane) => if (lane < lanes) routing(shard) = lane }
      if (motion.isOn)
        motion.moves(shards, lanes).foreach { case (shard, lane) => routing(shard) = lane }
    }
    val reasons = wantedMoves.keySet.toSet
    wantedMoves.clear()
    // A batch boundary is a handoff without a pause: nothing is in flight.
    if (lanes > 1 || before.exists(_ != 0)) before.indices.filter(s => before(s) != routing(s)).foreach {
      s =>
        val reason =
          if (reasons(s)) MoveReason.User
          else if (before(s) >= lanes || before.max == 0) MoveReason.Scale
          else if (motion.isOn) MoveReason.Motion
          else MoveReason.Balance
        val handoff =
          new Handoff(nextHandoffId(), ShardId(s), LaneId(before(s)), LaneId(routing(s)), reason, 0L)
        record(handoff, current.batchId)
    }
    BatchStart(routing.clone(), lanes)
  }

  def running(now: Inlet[_]): Unit = synchronized {
    if (direct != null) detach()
    inlet = now
    if (!current.options.loadByCpu) tracker.restart()
    if (midBatch && wantedLanes != batchLanes) scale()
  }

  def runningDirect(lane: DirectLane): Unit = synchronized {
    direct = lane
    if (wantedLanes > 1 || motion.isOn) lane.requestThreads()
  }

  /** The task has put out everything; `last` is the routing that the next batch starts with. */
  def endBatch(by: PartitionTask, last: Array[Int]): Unit = synchronized {
    if (task eq by) {
      routing = last.clone()
      detach()
    }
  }

  /** The task ends, whichever way. */
  def abandon(by: PartitionTask): Unit = synchronized {
    if (task eq by) {
      if (inlet != null) routing = inlet.stats.routing
      detach()
      task = null
    }
  }

  private def detach(): Unit = {
    if (inlet != null) updateLoads(System.nanoTime())
    before = counts(inletStats)
    inlet = null
    direct = null
    stock = null
  }

  /** Everything since the query started, the work of this moment included. */
  private def counts(stats: Option[InletStats]): Counts = before + (
    stats match {
      case Some(s) => Counts(s.offered.sum, s.laneRows, s.busyNs, s.blockedNs)
      case None if direct != null => Counts.ofOneLane(direct.rows, direct.busyNs)
      case None if stock != null => Counts.ofOneLane(stock.rows, stock.busyNs)
      case None => Counts.none
    }
  )

  private def inletStats: Option[InletStats] = Option(inlet).map(_.stats)

  // ---- handoffs

  def settled(handoff: Handoff, batchId: Long): Unit = synchronized(record(handoff, batchId))

  private def record(handoff: Handoff, batchId: Long): Unit = {
    handoffCount += 1
    if (handoff.begunNs != 0L) pauses.recordValue(math.max(1L, handoff.pauseNs))
    history.add(HandoffRecord.of(current.key, index, batchId, handoff))
  }

  // ---- commands

  def setLanes(count: Int): Applied = synchronized {
    wantedLanes = count
    scale()
  }

  private def scale(): Applied =
    if (!midBatch) Applied.NextBatch
    else if (inlet != null) {
      inlet.setLanes(wantedLanes) match {
        case Left(_) => Applied.NextBatch
        case Right(()) =>
          batchLanes = wantedLanes
          spread()
          Applied.Now
      }
    } else if (direct != null && wantedLanes > 1) {
      direct.requestThreads()
      Applied.Now
    } else Applied.NextBatch

  /** Gives new lanes something to do at once: by load where it is known, else by number of shards. */
  private def spread(): Unit = {
    val stats = inlet.stats
    val loads = tracker.loads
    val known = tracker.isWarm && loads.sum > 0
    val plan =
      if (known) planner.plan(loads, stats.destinations, wantedLanes)
      else CountBalancer.plan(loads, stats.destinations, wantedLanes)
    plan.foreach(m => inlet.move(m.shard, m.to, MoveReason.Scale))
  }

  /** Moves one shard; `Left` says why it cannot be. */
  def moveShard(shard: Int, lane: Int): Either[String, (Int, Applied)] = synchronized {
    if (inlet != null && midBatch)
      inlet.move(ShardId(shard), LaneId(lane), MoveReason.User).map(h => (h.from.value, Applied.Now))
    else if (routing(shard) == lane) Left(s"shard $shard is on lane $lane already")
    else {
      wantedMoves(shard) = lane
      Right((routing(shard), Applied.NextBatch))
    }
  }

  // ---- the controller's turn

  def tick(nowNs: Long): Unit = synchronized {
    val options = current.options
    if (nowNs - sample.last.atNs >= RateSample.EveryNs) {
      val now = counts(inletStats)
      sample = sample.next(Sampled(nowNs, now.rowsIn, flow, now.busyNs, handoffCount))
    }
    if (nowNs - latencySinceNs >= ElasticPartition.LatencyNs) {
      latency = latencies.getIntervalHistogram(latency)
      latencySinceNs = nowNs
    }
    if (inlet != null) {
      if (nowNs - lastBalanceNs >= options.balanceIntervalMs * 1000000L) {
        lastBalanceNs = nowNs
        updateLoads(nowNs)
        if (options.balance && midBatch) balance()
      }
    }
    if (motion.isOn && midBatch && nowNs - lastMotionNs >= options.motionIntervalMs * 1000000L) {
      lastMotionNs = nowNs
      if (inlet != null) motionStep(inlet)
      else if (direct != null) direct.requestThreads()
    }
  }

  private def updateLoads(nowNs: Long): Unit =
    tracker.update(if (current.options.loadByCpu) cpuNs.clone() else inlet.stats.offered, nowNs)

  private def balance(): Unit = {
    val stats = inlet.stats
    planner
      .plan(tracker.loads, stats.destinations, stats.activeLanes)
      .foreach(m => inlet.move(m.shard, m.to, MoveReason.Balance))
  }

  private def motionStep(to: Inlet[_]): Unit = {
    motion.lanes().foreach { n =>
      wantedLanes = n
      scale()
    }
    motion.moves(shards, to.stats.activeLanes).foreach { case (shard, lane) =>
      to.move(ShardId(shard), LaneId(lane), MoveReason.Motion)
    }
  }

  /** For the receiver: moves driven by rows, so that short batches move too. Null if the fault mode is off. */
  def receiverMotion(spec: ElasticSpec): ReceiverMotion =
    if (motion.isOn && spec.handoff != HandoffMode.BetweenBatches)
      new ReceiverMotion(
        motion.everyRows,
        inlet =>
          synchronized {
            if (this.inlet eq inlet) motionStep(inlet)
          }
      )
    else null

  // ---- view

  def view: PartitionView = synchronized {
    val stats = inletStats
    val now = counts(stats)
    val passed = flow
    PartitionView(
      current,
      index,
      running = inlet != null || direct != null || stock != null,
      lanes = if (inlet != null) stats.get.activeLanes else wantedLanes,
      wantedLanes = wantedLanes,
      routing = stats.fold(routing.clone())(_.routing),
      loads = tracker.loads,
      rowsIn = now.rowsIn,
      rowsOut = passed.rowsOut,
      bytesIn = passed.bytesIn,
      bytesOut = passed.bytesOut,
      rowsInPerSecond = sample.perSecond(_.rowsIn),
      rowsOutPerSecond = sample.perSecond(_.flow.rowsOut),
      bytesInPerSecond = sample.perSecond(_.flow.bytesIn),
      bytesOutPerSecond = sample.perSecond(_.flow.bytesOut),
      laneBusy = sample.busy,
      laneRows = now.laneRows,
      busyNs = now.busyNs,
      blockedNs = now.blockedNs,
      queueRows = stats.fold(Array.empty[Long])(_.queueRows),
      queueBytes = stats.fold(Array.empty[Long])(_.queueBytes),
      inFlight = stats.fold(0)(_.inFlight),
      handoffs = handoffCount,
      handoffsPerSecond = sample.perSecond(_.handoffs),
      pauseUs = PauseView(
        pauses.getValueAtPercentile(50) / 1e3,
        pauses.getValueAtPercentile(99) / 1e3,
        pauses.getMaxValue / 1e3,
        pauses.getTotalCount
      ),
      state = state,
      latencyMs = LatencyView(
        latency.getMean,
        latency.getValueAtPercentile(50).toDouble,
        latency.getValueAtPercentile(99).toDouble,
        latency.getMaxValue.toDouble,
        latency.getTotalCount
      )
    )
  }
}

private object ElasticPartition {

  /** Latencies are those of spans of this length. */
  private val LatencyNs = 10000000000L
}

/** A batch that one lane runs as Spark itself would. */
private final class StockBatch(in: RowCount) {
  private val sinceNs = System.nanoTime()

  def rows: Long = in.rows
  def busyNs: Long = System.nanoTime() - sinceNs
}
