package org.apache.spark.sql.laneshift.runtime

import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.laneshift.lane._
import org.apache.spark.sql.laneshift.spec.{ElasticSpec, HandoffMode, OperatorKey, OperatorSpec, RowWork}

import laneshift.ids.{LaneId, ShardId}
import laneshift.lane.{Deals, DealsBefore, Inlet, InletStats, LaneBudget, LaneFeed}
import laneshift.routing.{Handoff, MoveReason, RoutingTable}

/** When a command takes effect. */
sealed abstract class Applied(val name: String)

object Applied {
  case object Now extends Applied("now")
  case object NextBatch extends Applied("next-batch")
}

/** What an executor remembers of one elastic partition from batch to batch: the lanes that it is to have ([[LaneWish]]), where its shards
  * are, loads in its balancer, counts in its meter. While a task computes the partition (its [[Session]]), commands and the balancer's
  * decisions go to its inlet.
  *
  * Every method may be called by any thread. Lock order: this partition, then the inlet; the inlet calls back only where it
  * holds no lock, to draw a handoff's id, or to start a lane.
  */
final class ElasticPartition(
    initial: ElasticSpec,
    override val index: Int,
    history: HandoffHistory,
    budget: LaneBudget,
    cores: Cores,
    here: () => HostAddress,
    clock: () => Long = () => System.nanoTime()
) extends PartitionHome
    with Logging {

  /** The newest batch's; `isNew` before the first one here. */
  private var current = initial
  private var isNew = true

  private val shards = initial.options.shards
  private val balancer = new PartitionBalancer(initial.options, clock)
  private val meter = new PartitionMeter(initial)
  private val pressure = new Pressure(initial.key, index)
  private val motion = new Motion(initial.operator, index)
  private val growth = new LaneGrowth(
    cores,
    initial.options.maxLanes,
    if (isDealt && initial.readsAhead) LaneGrowth.Pace.Ahead else LaneGrowth.Pace.Rows
  )
  private val handoffIds = new AtomicLong

  private val planned =
    LaneWish(initial.options.lanes.getOrElse(1), auto = initial.options.lanes.isEmpty && !motion.isOn)
  private var wish = planned
  private val wantedMoves = mutable.LinkedHashMap.empty[Int, Int]

  /** Read without the lock to see whether a task computes the partition. */
  @volatile private var session: Session = Session.Resting
  private var autoBatch = Option.empty[AutoBatch]
  private var granted = new LaneGrant(budget)
  private var routing = RoutingTable.roundRobin(shards, planned.lanes)

  /** By number in `routing`, the lanes of a batch that has some elsewhere from its beginning; others are at home. */
  private var places = Seq.empty[LanePlace]
  private var batchLanes = planned.lanes

  /** The batch has had as many from its beginning. */
  private var constantLanes = true

  private var lastBatch = Option.empty[BatchRecord]

  /** The last batch that had rows. */
  private var lastWork = Option.empty[BatchRecord]
  private var lastDeals = Option.empty[DealsBefore]
  private var lastLoad = Option.empty[BatchLoad]
  private val scalesAgain = new Every(ElasticPartition.ScaleAgainNs)

  /** The driver knows something of the partition that was not planned. */
  private var remembered = false

  @volatile private var touchedNs = clock()

  def key: OperatorKey = initial.key
  override def cpuNs: Array[Long] = balancer.cpuNs
  override def nextHandoffId(): Long = handoffIds.getAndIncrement()
  def lastTouchedNs: Long = touchedNs
  def isRunning: Boolean = session != Session.Resting

  /** Whether the number of lanes is left to laneshift. */
  def isAuto: Boolean = synchronized(wish.auto)

  /** As of its newest batch. */
  def operator: OperatorSpec = synchronized(current.operator)

  private def isDealt: Boolean = current.handoff == HandoffMode.Dealt

  private def midBatch: Boolean = current.handoff != HandoffMode.BetweenBatches

  /** The inlet of a batch whose shards may move now. */
  private def inlet: Option[Inlet[_]] = if (midBatch) session.inlet else None

  // ---- memory

  /** What the driver should know for another process that may have the partition next; none if that is nothing new. */
  def toRemember: Option[PartitionMemory] = synchronized {
    // What the fault mode wants elsewhere is here.
    val wanted =
      LaneWish(wish.lanes, wish.auto, if (motion.isOn) Map.empty[HostAddress, Int] else wish.elsewhere)
    val known = remembered
    remembered = wanted != planned || batchLanes != 1
    Option.when(known || remembered || lastLoad.nonEmpty)(
      PartitionMemory(current.batchId, wanted, routing.clone(), balancer.loads, lastLoad)
    )
  }

  /** Goes on from what the partition was on another executor, if that is newer. This one is `executorId`. */
  def recall(memory: PartitionMemory, executorId: String): Unit = synchronized {
    val newer = isNew || memory.batchId > current.batchId
    if (newer && session == Session.Resting && memory.routing.length == shards) {
      remembered = true
      wish = memory.wish.movedTo(executorId, current.options.maxLanes)
      routing = memory.routing.clone()
      balancer.remember(memory.loads)
    }
  }

  /** True if another process may have computed the partition since this one did. */
  def mayHaveMoved(batchId: Long): Boolean = synchronized(isNew || batchId > current.batchId + 1)

  // ---- batches

  /** The routing and lanes of a batch that begins; applies what was wanted since the last one. Its lanes are granted until the
    * task ends.
    *
    * @param asked what laneshift found best for this task, where that is left to it
    */
  def startBatch(spec: ElasticSpec, context: TaskContext, asked: Option[AutoBatch]): BatchStart =
    synchronized {
      current = spec
      isNew = false
      touchedNs = clock()
      autoBatch = asked.filter(_ => wish.auto)
      autoBatch.foreach(batch => wish = wish.copy(lanes = batch.lanes))
      if (wish.auto && isDealt && !spec.realTime)
        wish = wish.copy(lanes = growth.atStart(wish.lanes, lastWork, cores.partOf(context)))
      if (!session.isWorking) motion.lanes().foreach(lanes => wish = wish.copy(lanes = lanes))
      motion.remoteAtStart().foreach(lanes => wish = wish.copy(elsewhere = Map(here() -> lanes)))
      val grant = new LaneGrant(budget)
      granted = grant
      val before = meter.counts(session, None)
      val (sinceNs, waitedNs) = (clock(), AutoLanes.waitedNs)
      // Registered before what the operators register, and so run after: what the task did has been counted.
      context.addTaskCompletionListener[Unit] { task =>
        grant.giveBack()
        asked.foreach(_.over(task, synchronized(Option.when(constantLanes)(batchLanes))))
        if (!task.isFailed() && !task.isInterrupted()) finished(task, before, sinceNs, waitedNs)
      }
      batchLanes = 1 + grant.take(wish.lanes - 1)
      constantLanes = true
      if (midBatch || wish.elsewhere.isEmpty) {
        reroute(batchLanes, Nil)
        BatchStart(routing.clone(), batchLanes, deals = lastDeals)
      } else BatchStart(new Array[Int](shards), batchLanes, wish.elsewhere)
    }

  override def route(lanes: Seq[Int]): Array[Int] = synchronized {
    reroute(lanes.size, lanes.map(place))
    routing.map(lanes)
  }

  private def place(lane: Int): LanePlace =
    LanePlace(lane, session.task.flatMap(_.remote.executorOf(lane)).getOrElse(""))

  private def reroute(lanes: Int, now: Seq[LanePlace]): Unit = {
    val (was, before) = (routing, places)
    places = now
    routing = if (lanes == 1 || isDealt) new Array[Int](shards) else balancer.route(was, lanes)
    if (!isDealt) {
      val moves = wantedMoves.filter(_._2 < lanes) ++ motion.moves(shards, lanes)
      moves.foreach { case (shard, lane) => routing(shard) = lane }
    }
    if (lanes > 1 || midBatch) recordChanges(was, before, lanes)
    wantedMoves.clear()
  }

  /** A batch boundary is a handoff without a pause: nothing is in flight. */
  private def recordChanges(before: Array[Int], placesBefore: Seq[LanePlace], lanes: Int): Unit = {
    def at(places: Seq[LanePlace], number: Int) = places.lift(number).getOrElse(LanePlace(number, ""))
    for {
      s <- before.indices
      from = at(placesBefore, before(s))
      to = at(places, routing(s))
      if from != to
    } {
      val reason =
        if (wantedMoves.contains(s)) MoveReason.User
        else if (before(s) >= lanes || before.max == 0) MoveReason.Scale
        else if (motion.isOn) MoveReason.Motion
        else MoveReason.Balance
      val handoff =
        new Handoff(nextHandoffId(), ShardId(s), LaneId(from.lane), LaneId(to.lane), reason, 0L)
      record(handoff, current.batchId, from, to)
    }
  }

  /** On the task's thread, as it began; `waitedNs` is for how long that had waited for turns by then. */
  private def finished(task: TaskContext, before: Counts, sinceNs: Long, waitedNs: Long): Unit =
    synchronized {
      val done = meter.counts(session, session.stats) - before
      val took = clock() - sinceNs
      val reported = new Reported(task, current.stateMetrics)
      val commits = if (meter.countsCommits) reported.commitsNs else 0L
      reported.state.foreach(meter.state = _)
      lastBatch = Some(
        BatchRecord(
          current.batchId,
          batchLanes,
          done.rowsIn,
          math.max(0L, done.busyNs.sum - commits),
          took - (AutoLanes.waitedNs - waitedNs),
          constantLanes
        )
      )
      if (done.rowsIn > 0) lastWork = lastBatch
      // Lanes on other executors are of no use to what is apart: who has some keeps all with the state.
      val mayBeApart = current.rowWork == RowWork.Apart || wish.elsewhere.isEmpty && !motion.isOn
      lastLoad = Option
        .when(current.rowWork != RowWork.Fixed && mayBeApart)(loadOf(done, commits, took))
        .filter(_.matters)
    }

  private def loadOf(done: Counts, commitsNs: Long, tookNs: Long): BatchLoad = {
    val loads = balancer.loads
    val hottestShard = if (loads.sum > 0) loads.max / loads.sum else 0.0
    val lanes = if (wish.auto) batchLanes + math.max(0, cores.idle) else wish.lanes
    BatchLoad(
      current.batchId,
      isApart = current.rowWork == RowWork.Apart,
      done.rowsIn,
      done.rowsIn * 1e9 / tookNs,
      meter.hottestOfBatch(current).getOrElse(hottestShard),
      math.max(0L, done.busyNs.maxOption.getOrElse(0L) - commitsNs).toDouble / tookNs,
      math.min(current.options.maxLanes, lanes)
    )
  }

  /** What counts the rows of the batch that is about to start. */
  def newMeter(): BatchMeter = synchronized {
    pressure.begin()
    meter.newBatch(current)
  }

  /** Spark's own path over the whole batch. */
  def stockBatch(context: TaskContext, rows: RowCount, metrics: Map[String, SQLMetric])(
      body: => Iterator[InternalRow]
  ): Iterator[InternalRow] = {
    val stock = new Session.Stock(rows)
    synchronized { session = stock }
    context.addTaskCompletionListener[Unit] { _ =>
      metrics("lanes").set(1)
      metrics("rowsIn") += rows.rows
      metrics("busiestLaneRows") += rows.rows
      synchronized {
        if (session eq stock) goOver(Session.Resting)
      }
    }
    body
  }

  /** Leaves the session, whose counts stay, for the next. */
  private def goOver(to: Session): Unit = {
    session.stats.foreach(s => balancer.update(s.offered, clock()))
    meter.ended(session)
    session = to
  }

  /** What a task says counts as long as it is the one that computes the partition: another may have begun since. */
  private def by(task: LaneTask)(body: => Unit): Unit =
    synchronized(if (session.task.exists(_ eq task)) body)

  override def begun(task: LaneTask): Unit = synchronized(goOver(Session.Attached(task)))

  override def runningDirect(task: LaneTask, lane: DirectLane): Unit = by(task) {
    goOver(Session.Direct(task, lane))
    scale()
    if (motion.isOn) lane.requestThreads()
  }

  override def running(task: LaneTask, feed: LaneFeed): Unit = by(task) {
    goOver(Session.Threaded(task, feed))
    balancer.newInlet()
    if (midBatch) task.remote.want(wish.elsewhere)
    if (wish.lanes != batchLanes) scale()
  }

  override def endBatch(task: LaneTask, last: Array[Int]): Unit = by(task) {
    if (midBatch) routing = last.clone()
    session match {
      case Session.Threaded(_, deals: Deals[_]) => lastDeals = deals.told
      case _ => ()
    }
    goOver(Session.Attached(task))
  }

  override def abandon(task: LaneTask): Unit = by(task) {
    if (midBatch) session.stats.foreach(s => routing = s.routing)
    goOver(Session.Resting)
  }

  override def lanesChanged(task: LaneTask): Unit = by(task)(inlet.foreach(spread))

  override def hostRefused(host: HostAddress, why: String): Unit = synchronized {
    logWarning(s"Partition $index has no lane on $host: $why. It goes on with those that it has.")
    less(host, 1, s"$host: $why")
  }

  override def hostLate(host: HostAddress): Unit = synchronized {
    val times = wish.late.getOrElse(host, 0) + 1
    wish = wish.copy(late = wish.late + (host -> times))
    less(host, if (times >= ElasticPartition.LateTimes) 1 else 0, s"$host was not ready when the batch began")
  }

  /** Where that fails the task, it is not to happen again when the task is run again. */
  override def hostLost(host: HostAddress, why: String): Unit = synchronized {
    less(host, if (midBatch) 1 else Int.MaxValue, s"$host is lost: $why")
  }

  /** The fault mode, whose host is this process, goes on to want its lanes. */
  private def less(host: HostAddress, fewer: Int, why: String): Unit =
    wish = wish.less(host, if (motion.isOn) 0 else fewer, why)

  // ---- handoffs

  override def settled(handoff: Handoff, batchId: Long): Unit =
    synchronized(record(handoff, batchId, place(handoff.from.value), place(handoff.to.value)))

  private def record(handoff: Handoff, batchId: Long, from: LanePlace, to: LanePlace): Unit = {
    meter.handedOff(handoff)
    history.add(HandoffRecord.of(current.key, index, batchId, handoff, from, to))
  }

  // ---- commands

  /** @param elsewhere how many more on which other executors; without it what is wanted there stays so */
  def setLanes(count: Int, elsewhere: Option[Map[HostAddress, Int]] = None): Applied = synchronized {
    if (elsewhere.exists(_.nonEmpty) && current.operator.lanesStayHome) throw new IllegalArgumentException(
      s"Operator ${current.key.operatorId} has no state, and its rows stay on the executor of each partition."
    )
    wish = wish.said(count, elsewhere)
    scale()
  }

  /** Gives up so many lanes on another executor, or all that there are, and says how many. They are not asked for again. */
  def leave(executorId: String, lanes: Int, why: String): Int = synchronized {
    wish.elsewhere.find(_._1.executorId == executorId).fold(0) { case (host, wanted) =>
      val fewer = math.min(lanes, wanted)
      logInfo(s"Partition $index gives up $fewer of $wanted lanes on $host: it $why.")
      wish = wish.less(host, fewer, s"$host $why")
      // A batch whose lanes are fixed keeps them: one that ends before all are there would end the input for them.
      if (midBatch) session.task.foreach(_.remote.want(wish.elsewhere))
      fewer
    }
  }

  private def want(lanes: Int): Unit = {
    wish = wish.copy(lanes = lanes)
    scale()
    ()
  }

  /** Goes over to what is wanted, where that can be now. */
  private def scale(): Applied = session match {
    case Session.Threaded(by, feed) if midBatch =>
      by.remote.want(wish.elsewhere)
      granted.take(wish.lanes - granted.lanes)
      feed.setLanes(math.min(wish.lanes, granted.lanes)).fold(
        _ => Applied.NextBatch,
        { lanes =>
          constantLanes = constantLanes && lanes == batchLanes
          batchLanes = lanes
          granted.keep(lanes)
          inlet.foreach(spread)
          Applied.Now
        }
      )
    case Session.Direct(_, lane) if (wish.lanes > 1 && budget.free > 0) || wish.elsewhere.nonEmpty =>
      lane.requestThreads()
      Applied.Now
    case _ => Applied.NextBatch
  }

  private def spread(inlet: Inlet[_]): Unit =
    balancer.spread(inlet.stats).foreach(m => inlet.move(m.shard, m.to, MoveReason.Scale))

  /** Moves one shard; `Left` says why it cannot be. */
  def moveShard(shard: Int, lane: Int): Either[String, (Int, Applied)] = synchronized {
    inlet match {
      case Some(inlet) =>
        val lanes = LaneNumbers.of(inlet.stats)
        inlet.move(ShardId(shard), LaneId(lanes.id(lane)), MoveReason.User)
          .map(h => (lanes.shown(h.from.value), Applied.Now))
      case _ if isDealt => Left("its rows go to any lane: it has no shards")
      case _ if routing(shard) == lane => Left(s"shard $shard is on lane $lane already")
      case _ =>
        wantedMoves(shard) = lane
        Right((routing(shard), Applied.NextBatch))
    }
  }

  /** For so long shards move only as somebody says: the balancer rests. */
  def restBalancer(seconds: Double): Unit = synchronized(balancer.rest(seconds))

  // ---- the controller's turn

  /** Whether the partition has just become pressed, for the driver. */
  def tick(nowNs: Long): Option[PartitionPressed] = synchronized {
    val isSampled = meter.tick(session, nowNs)
    session.inlet.filter(_ => balancer.isDue(nowNs)).foreach { of =>
      balancer.update(of.stats.offered, nowNs)
      inlet.foreach(i => balancer.even(i.stats).foreach(m => i.move(m.shard, m.to, MoveReason.Balance)))
    }
    if (wish.lanes > batchLanes && scalesAgain.isDue(nowNs)) scale()
    if (wish.auto && midBatch) grow(nowNs, isSampled)
    if (midBatch && motion.isDue(nowNs)) session match {
      case Session.Threaded(_, _) => motionStep()
      case Session.Direct(_, lane) => lane.requestThreads()
      case _ => ()
    }
    val mayGrow = wish.lanes < current.options.maxLanes || current.operator.maxElsewhere > 0
    if (current.realTime && !motion.isOn && session.isWorking && mayGrow) pressure.turn(nowNs, session, meter)
    else None
  }

  /** Idle cores for a partition that has more to do than it can, and back. */
  private def grow(nowNs: Long, isSampled: Boolean): Unit =
    if (!session.mayGetLanes) growth.rest()
    else if (growth.isTrying && session.areLanesStarting) {
      growth.rest(batchLanes)
      // That may take minutes, and others may need the cores.
      if (isSampled) growth.givenBack(batchLanes).foreach(want)
    } else if (isSampled) {
      growth.saw(nowNs, meter.rates.at.laneRows.sum)
      val busy = meter.rates.busy.take(batchLanes).sum
      val worth = current.realTime || isDealt || autoBatch.exists(_.isWorthMore(nowNs))
      val lanes = growth.turn(batchLanes, busy, worth)
      // What was asked for and has not come is wanted no more once it is refused.
      if (lanes != batchLanes || lanes < wish.lanes && !growth.isTrying) want(lanes)
    }

  private def motionStep(): Unit = {
    motion.lanes().foreach(want)
    inlet.foreach { to =>
      motion.remoteLanes().foreach { lanes =>
        wish = wish.copy(elsewhere = Map(here() -> lanes))
        session.task.foreach(_.remote.want(wish.elsewhere))
      }
      val lanes = to.stats.active
      motion.moves(shards, lanes.length).foreach { case (shard, lane) =>
        to.move(ShardId(shard), LaneId(lanes(lane)), MoveReason.Motion)
      }
    }
  }

  /** Moves driven by rows, so that short batches move too. */
  override def receiverMotion: ReceiverMotion = synchronized {
    if (motion.isOn && midBatch) {
      // Batches are shorter than it takes to open a session.
      lazy val begun = session.task.foreach(_.remote.awaitOpen())
      new ReceiverMotion(
        motion.everyRows,
        of => {
          begun
          synchronized(if (inlet.exists(_ eq of)) motionStep())
        }
      )
    } else null
  }

  // ---- view

  /** Its lanes on other executors, by their numbers inside. */
  def elsewhere: Seq[RemoteLaneView] =
    synchronized(session.task.fold(Seq.empty[RemoteLaneView])(_.remote.view))

  def view: PartitionView = synchronized {
    val stats = session.stats
    val now = meter.counts(session, stats)
    val rates = meter.rates
    val lanes = stats.fold(LaneNumbers.first(wish.lanes))(LaneNumbers.of)
    def byLane(of: InletStats => Array[Long]) = stats.fold(Array.empty[Long])(s => lanes.show(of(s), 0L))
    // Behind the slots of lanes at home.
    def ofElsewhere(byId: Array[Long]) = byId.drop(current.options.maxLanes).sum
    PartitionView(
      current.operator,
      index,
      running = session.isWorking,
      lanes = stats.fold(wish.lanes)(_.activeLanes),
      wantedLanes = wish.lanes,
      auto = wish.auto,
      lastBatch = lastBatch,
      routing = stats.fold(routing.clone())(s => s.routing.map(lanes.shown)),
      loads = balancer.loads,
      rowsIn = now.rowsIn,
      rowsOut = now.rowsOut,
      bytesIn = now.bytesIn,
      bytesOut = now.bytesOut,
      rowsInPerSecond = rates.perSecond(_.rowsIn),
      rowsOutPerSecond = rates.perSecond(_.rowsOut),
      bytesInPerSecond = rates.perSecond(_.bytesIn),
      bytesOutPerSecond = rates.perSecond(_.bytesOut),
      laneBusy = lanes.show(rates.busy, 0.0),
      laneRows = lanes.show(now.laneRows, 0L),
      rowsTaken = now.laneRows.sum,
      busyNs = now.busyNs.sum,
      rowsTakenElsewhere = ofElsewhere(now.laneRows),
      busyElsewhereNs = ofElsewhere(now.busyNs),
      blockedNs = now.blockedNs,
      queueRows = byLane(_.queueRows),
      queueBytes = byLane(_.queueBytes),
      inFlight = stats.fold(0)(_.inFlight),
      handoffs = now.handoffs,
      handoffsPerSecond = rates.perSecond(_.handoffs),
      pauseUs = meter.pauseView,
      wantedElsewhere = wish.elsewhere.toSeq.map { case (host, lanes) => host.executorId -> lanes }.sorted,
      elsewhere = elsewhere.map(e => e.copy(lane = lanes.shown(e.lane))),
      elsewhereNote = wish.note,
      hotKeys = meter.hottest,
      state = meter.state,
      latencyMs = meter.latencyView
    )
  }
}

private object ElasticPartition {

  /** A host that is late so often is not waited for again. */
  private val LateTimes = 3

  /** How often a partition that has fewer lanes than are wanted asks again. */
  private val ScaleAgainNs = 1000000000L
}
