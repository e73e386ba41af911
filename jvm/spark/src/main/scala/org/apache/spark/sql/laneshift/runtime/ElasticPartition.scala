package org.apache.spark.sql.laneshift.runtime

import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.laneshift.lane._
import org.apache.spark.sql.laneshift.spec.{ElasticSpec, HandoffMode, OperatorKey, RowWork}

import laneshift.ids.{LaneId, ShardId}
import laneshift.lane.{Inlet, LaneBudget, LaneFeed}
import laneshift.routing.{Handoff, MoveReason, RoutingTable}

/** When a command takes effect. */
sealed abstract class Applied(val name: String)

object Applied {
  case object Now extends Applied("now")
  case object NextBatch extends Applied("next-batch")
}

/** What an executor remembers of one elastic partition from batch to batch: routing and wanted lanes here, loads in its
  * balancer, counts in its meter. While a task computes the partition, commands and the balancer's decisions go to its inlet.
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
  private var current = initial
  private var isNew = true
  private val shards = initial.options.shards
  private val balancer = new PartitionBalancer(initial.options, clock)
  private val meter = new PartitionMeter(initial)
  private val pressure = new Pressure(initial.key, index)
  private val motion = new Motion(initial.operator, index)
  private val handoffIds = new AtomicLong

  private val leftToUs = initial.options.lanes.isEmpty && !motion.isOn
  private val growth = new LaneGrowth(
    cores,
    initial.options.maxLanes,
    if (isDealt && initial.readsAhead) LaneGrowth.Pace.Ahead else LaneGrowth.Pace.Rows
  )

  /** Whether nobody has said how many lanes it should have. */
  private var auto = leftToUs
  private var autoBatch = Option.empty[AutoBatch]
  private val initialLanes = initial.options.lanes.getOrElse(1)
  private var wantedLanes = initialLanes
  private var routing = RoutingTable.roundRobin(shards, wantedLanes)
  private var batchLanes = wantedLanes

  /** By number in `routing`, the lanes of a batch that has some elsewhere from its beginning; others are at home. */
  private var places = Seq.empty[LanePlace]

  /** The batch has had as many from its beginning. */
  private var constantLanes = true

  /** Lanes that are wanted on other executors. */
  private var wantedElsewhere = Map.empty[HostAddress, Int]

  /** Why the newest of them that is not there is not. */
  private var elsewhereNote = Option.empty[String]

  /** How often a host was not ready when a batch began. */
  private val late = mutable.Map.empty[HostAddress, Int].withDefaultValue(0)
  private val wantedMoves = mutable.LinkedHashMap.empty[Int, Int]

  private var lastBatch = Option.empty[BatchRecord]
  private var lastLoad = Option.empty[BatchLoad]

  /** Read without the lock to see whether a task computes the partition. */
  @volatile private var session: Session = Session.Resting
  private var granted = new LaneGrant(budget)
  private var lastScaleNs = 0L
  private var lastMotionNs = 0L
  private var lastGrowthNs = 0L

  /** The driver knows something of the partition that was not planned. */
  private var remembered = false

  @volatile private var touchedNs = clock()

  def key: OperatorKey = initial.key
  override def cpuNs: Array[Long] = balancer.cpuNs
  override def nextHandoffId(): Long = handoffIds.getAndIncrement()
  def lastTouchedNs: Long = touchedNs
  def isRunning: Boolean = session != Session.Resting

  private def isDealt: Boolean = current.handoff == HandoffMode.Dealt

  private def midBatch: Boolean = current.handoff != HandoffMode.BetweenBatches

  // ---- memory

  /** What the driver should know for another process that may have the partition next; none if that is nothing new. */
  def toRemember: Option[PartitionMemory] = synchronized {
    // What the fault mode wants elsewhere is here.
    val elsewhere = if (motion.isOn) Map.empty[HostAddress, Int] else wantedElsewhere
    val asPlanned =
      auto == leftToUs && wantedLanes == initialLanes && batchLanes == 1 && elsewhere.isEmpty
    val known = remembered
    remembered = !asPlanned
    Option.when(known || !asPlanned || lastLoad.nonEmpty)(
      PartitionMemory(
        current.batchId,
        wantedLanes,
        auto,
        elsewhere,
        routing.clone(),
        balancer.loads,
        lastLoad
      )
    )
  }

  /** Goes on from what the partition was on another executor, if that is newer. Lanes that were wanted on this one, `executorId`,
    * would not be elsewhere.
    */
  def recall(memory: PartitionMemory, executorId: String): Unit = synchronized {
    val newer = isNew || memory.batchId > current.batchId
    if (newer && session == Session.Resting && memory.routing.length == shards) {
      remembered = true
      wantedLanes = math.min(memory.lanes, current.options.maxLanes)
      auto = memory.auto
      wantedElsewhere = memory.elsewhere.filter(_._1.executorId != executorId)
      // What has become of lanes when the partition was here before is no news.
      elsewhereNote = memory.elsewhere.collectFirst {
        case (host, lanes) if host.executorId == executorId =>
          s"$host has the partition now: the $lanes lanes that were wanted there are forgotten"
      }
      routing = memory.routing.clone()
      balancer.remember(memory.loads)
    }
  }

  /** True if another process may have computed the partition since this one did. */
  def mayHaveMoved(batchId: Long): Boolean = synchronized(isNew || batchId > current.batchId + 1)

  // ---- batches

  /** Whether the number of lanes is left to laneshift. */
  def isAuto: Boolean = synchronized(auto)

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
      autoBatch = asked.filter(_ => auto)
      autoBatch.foreach(b => wantedLanes = b.lanes)
      if (motion.isOn && !session.isWorking) motion.lanes().foreach(wantedLanes = _)
      if (motion.isOn && spec.options.motionRemote > 0)
        wantedElsewhere = Map(here() -> motion.remoteLanes().getOrElse(spec.options.motionRemote))
      val grant = new LaneGrant(budget)
      granted = grant
      val before = meter.counts(session, None)
      val (sinceNs, waitedNs) = (clock(), AutoLanes.waitedNs)
      // Registered before what the operators register, and so run after: what the task did has been counted.
      context.addTaskCompletionListener[Unit] { task =>
        grant.giveBack()
        asked.foreach(_.over(task, heldLanes))
        if (!task.isFailed() && !task.isInterrupted()) finished(task, before, sinceNs, waitedNs)
      }
      val lanes = 1 + grant.take(wantedLanes - 1)
      batchLanes = lanes
      constantLanes = true
      if (midBatch || wantedElsewhere.isEmpty) {
        reroute(lanes, Nil)
        BatchStart(routing.clone(), lanes)
      } else BatchStart(new Array[Int](shards), lanes, wantedElsewhere)
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
    if (lanes > 1 && !isDealt) {
      wantedMoves.foreach { case (shard, lane) => if (lane < lanes) routing(shard) = lane }
      if (motion.isOn)
        motion.moves(shards, lanes).foreach { case (shard, lane) => routing(shard) = lane }
    }
    if (lanes > 1 || midBatch) recordChanges(was, before, lanes)
    wantedMoves.clear()
  }

  /** On the task's thread, as it began; `waitedNs` is for how long that had waited for turns by then. */
  private def finished(task: TaskContext, before: Counts, sinceNs: Long, waitedNs: Long): Unit =
    synchronized {
      val now = meter.counts(session, session.stats)
      val took = clock() - sinceNs
      val commits = if (meter.countsCommits) Commits.ns(task, current.stateMetrics) else 0L
      lastBatch = Some(
        BatchRecord(
          current.batchId,
          batchLanes,
          now.rowsIn - before.rowsIn,
          math.max(0L, now.busyNs.sum - before.busyNs.sum - commits),
          took - (AutoLanes.waitedNs - waitedNs)
        )
      )
      // Lanes on other executors are of no use to what is apart: who has some keeps all with the state.
      val mayBeApart = current.rowWork == RowWork.Apart || wantedElsewhere.isEmpty && !motion.isOn
      lastLoad = Option
        .when(current.rowWork != RowWork.Fixed && mayBeApart)(loadOf(before, now, commits, took))
        .filter(_.matters)
    }

  private def loadOf(before: Counts, now: Counts, commitsNs: Long, tookNs: Long): BatchLoad = {
    val busy = now.busyNs.zipAll(before.busyNs, 0L, 0L).map { case (after, was) => after - was }
    val loads = balancer.loads
    val hottestShard = if (loads.sum > 0) loads.max / loads.sum else 0.0
    val most = current.options.maxLanes
    val rows = now.rowsIn - before.rowsIn
    BatchLoad(
      current.batchId,
      isApart = current.rowWork == RowWork.Apart,
      rows,
      rows * 1e9 / tookNs,
      meter.hottestOfBatch(current).getOrElse(hottestShard),
      math.max(0L, busy.max - commitsNs).toDouble / tookNs,
      if (auto) math.min(most, batchLanes + math.max(0, cores.idle)) else math.min(most, wantedLanes)
    )
  }

  /** The lanes of the batch, if it has had as many from its beginning. */
  private def heldLanes: Option[Int] = synchronized(Option.when(constantLanes)(batchLanes))

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
      record(
        new Handoff(nextHandoffId(), ShardId(s), LaneId(from.lane), LaneId(to.lane), reason, 0L),
        current.batchId,
        from,
        to
      )
    }
  }

  /** What counts the rows of the batch that is about to start. */
  def newMeter(): BatchMeter = synchronized {
    pressure.begin()
    meter.newBatch(current)
  }

  /** The task has ended, with its stores. */
  def noteState(task: TaskContext): Unit =
    StateView.reported(task, current.stateMetrics).foreach(now => synchronized { meter.state = now })

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

  private def ifBy(task: LaneTask)(body: => Unit): Unit = if (session.task.exists(_ eq task)) body

  override def begun(task: LaneTask): Unit = synchronized(goOver(Session.Attached(task)))

  override def runningDirect(by: LaneTask, lane: DirectLane): Unit = synchronized {
    ifBy(by)(goOver(Session.Direct(by, lane)))
    if ((wantedLanes > 1 && budget.free > 0) || motion.isOn || wantedElsewhere.nonEmpty) lane.requestThreads()
  }

  override def running(by: LaneTask, feed: LaneFeed): Unit = synchronized {
    ifBy(by) {
      goOver(feed match {
        case inlet: Inlet[_] => Session.Threaded(by, inlet)
        case deals => Session.Dealing(by, deals)
      })
      balancer.newInlet()
      if (midBatch && wantedLanes != batchLanes) scale()
      if (midBatch) by.remote.want(wantedElsewhere)
    }
  }

  override def endBatch(by: LaneTask, last: Array[Int]): Unit = synchronized {
    ifBy(by) {
      if (midBatch) routing = last.clone()
      goOver(Session.Attached(by))
    }
  }

  override def abandon(by: LaneTask): Unit = synchronized {
    ifBy(by) {
      if (midBatch) session.stats.foreach(s => routing = s.routing)
      goOver(Session.Resting)
    }
  }

  override def lanesChanged(by: LaneTask): Unit = synchronized {
    session match {
      case Session.Threaded(task, inlet) if midBatch && (task eq by) => spread(inlet)
      case _ => ()
    }
  }

  override def hostRefused(host: HostAddress, why: String): Unit = synchronized {
    logWarning(s"Partition $index has no lane on $host: $why. It goes on with those that it has.")
    elsewhereNote = Some(s"$host: $why")
    oneLess(host)
  }

  /** It is asked for the lane again only if somebody says so. */
  private def oneLess(host: HostAddress): Unit = if (!motion.isOn)
    wantedElsewhere = wantedElsewhere.updatedWith(host)(_.map(_ - 1).filter(_ > 0))

  override def hostLate(host: HostAddress): Unit = synchronized {
    elsewhereNote = Some(s"$host was not ready when the batch began")
    late(host) += 1
    if (late(host) >= ElasticPartition.LateTimes) oneLess(host)
  }

  /** Where that fails the task, it is not to happen again when the task is run again. */
  override def hostLost(host: HostAddress, why: String): Unit = synchronized {
    elsewhereNote = Some(s"$host is lost: $why")
    if (midBatch) oneLess(host) else wantedElsewhere -= host
  }

  // ---- handoffs

  override def settled(handoff: Handoff, batchId: Long): Unit =
    synchronized(record(handoff, batchId, place(handoff.from.value), place(handoff.to.value)))

  private def record(handoff: Handoff, batchId: Long, from: LanePlace, to: LanePlace): Unit = {
    meter.handedOff(handoff)
    history.add(HandoffRecord.of(current.key, index, batchId, handoff, from, to))
  }

  // ---- commands

  /** What is wanted on other executors stays so. */
  def setLanes(count: Int): Applied = synchronized {
    auto = false
    want(count)
  }

  /** @param elsewhere how many more on which other executors */
  def setLanes(count: Int, elsewhere: Map[HostAddress, Int]): Applied = synchronized {
    auto = false
    elsewhereNote = None
    if (elsewhere.nonEmpty && current.operator.lanesStayHome) throw new IllegalArgumentException(
      s"Operator ${current.key.operatorId} has no state, and its rows stay on the executor of each partition."
    )
    late.clear()
    wantedElsewhere = elsewhere
    want(count)
  }

  /** Gives up so many lanes on another executor, or all that there are, and says how many. They are not asked for again. */
  def leave(executorId: String, lanes: Int, why: String): Int = synchronized {
    wantedElsewhere.find(_._1.executorId == executorId).fold(0) { case (host, wanted) =>
      val fewer = math.min(lanes, wanted)
      logInfo(s"Partition $index gives up $fewer of $wanted lanes on $host: it $why.")
      elsewhereNote = Some(s"$host $why")
      wantedElsewhere = wantedElsewhere.updatedWith(host)(_.map(_ - fewer).filter(_ > 0))
      session.task.foreach(_.remote.want(wantedElsewhere))
      fewer
    }
  }

  private def want(lanes: Int): Applied = {
    wantedLanes = lanes
    scale()
  }

  private def scale(): Applied = session match {
    case threads: Session.OnThreads if midBatch =>
      threads.by.remote.want(wantedElsewhere)
      scale(threads.feed)
    case Session.Direct(_, lane)
        if midBatch && ((wantedLanes > 1 && budget.free > 0) || wantedElsewhere.nonEmpty) =>
      lane.requestThreads()
      Applied.Now
    case _ => Applied.NextBatch
  }

  private def scale(feed: LaneFeed): Applied = {
    granted.take(wantedLanes - granted.lanes)
    feed.setLanes(math.min(wantedLanes, granted.lanes)) match {
      case Left(_) => Applied.NextBatch
      case Right(lanes) =>
        constantLanes = constantLanes && lanes == batchLanes
        batchLanes = lanes
        granted.keep(lanes)
        feed match {
          case inlet: Inlet[_] => spread(inlet)
          case _ => ()
        }
        Applied.Now
    }
  }

  private def spread(inlet: Inlet[_]): Unit =
    balancer.spread(inlet.stats).foreach(m => inlet.move(m.shard, m.to, MoveReason.Scale))

  /** Moves one shard; `Left` says why it cannot be. */
  def moveShard(shard: Int, lane: Int): Either[String, (Int, Applied)] = synchronized {
    session match {
      case Session.Threaded(_, inlet) if midBatch =>
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
    meter.tick(session, nowNs)
    session match {
      case Session.Threaded(_, inlet) if balancer.isDue(nowNs) =>
        balancer.update(inlet.stats.offered, nowNs)
        if (midBatch)
          balancer.even(inlet.stats).foreach(m => inlet.move(m.shard, m.to, MoveReason.Balance))
      case _ => ()
    }
    if (wantedLanes > batchLanes && nowNs - lastScaleNs >= ElasticPartition.ScaleAgainNs) {
      lastScaleNs = nowNs
      scale()
    }
    if (auto && midBatch) grow(nowNs)
    if (motion.isOn && midBatch && nowNs - lastMotionNs >= current.options.motionIntervalMs * 1000000L) {
      lastMotionNs = nowNs
      session match {
        case Session.Threaded(_, inlet) => motionStep(inlet)
        case Session.Dealing(_, _) => motion.lanes().foreach(want)
        case Session.Direct(_, lane) => lane.requestThreads()
        case _ => ()
      }
    }
    val mayGrow = wantedLanes < current.options.maxLanes || current.operator.maxElsewhere > 0
    if (current.realTime && !motion.isOn && session.isWorking && mayGrow) pressure.turn(nowNs, session, meter)
    else None
  }

  /** Idle cores for a partition that has more to do than it can, and back. */
  private def grow(nowNs: Long): Unit = {
    val isNew = meter.rates.last.atNs != lastGrowthNs
    if (isNew) {
      lastGrowthNs = meter.rates.last.atNs
      growth.saw(lastGrowthNs, meter.rates.last.rowsIn)
    }
    if (!session.isWorking) growth.rest()
    else if (isNew) {
      val busy = meter.rates.busy.take(batchLanes).sum
      val worth = current.realTime || isDealt || autoBatch.exists(_.isWorthMore(nowNs))
      val lanes = growth.turn(nowNs, batchLanes, busy, worth)
      if (lanes != batchLanes) want(lanes)
    }
  }

  private def motionStep(to: Inlet[_]): Unit = {
    motion.lanes().foreach(want)
    motion.remoteLanes().foreach { lanes =>
      wantedElsewhere = Map(here() -> lanes)
      session.task.foreach(_.remote.want(wantedElsewhere))
    }
    val lanes = to.stats.active
    motion.moves(shards, lanes.length).foreach { case (shard, lane) =>
      to.move(ShardId(shard), LaneId(lanes(lane)), MoveReason.Motion)
    }
  }

  /** Moves driven by rows, so that short batches move too. */
  override def receiverMotion: ReceiverMotion = synchronized {
    if (motion.isOn && midBatch) {
      // Batches are shorter than it takes to open a session.
      lazy val begun = session.task.foreach(_.remote.awaitOpen())
      new ReceiverMotion(
        motion.everyRows,
        inlet => {
          begun
          synchronized {
            session match {
              case Session.Threaded(_, now) if now eq inlet => motionStep(now)
              case _ => ()
            }
          }
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
    val passed = meter.flow
    val rates = meter.rates
    val lanes = stats.fold(LaneNumbers.first(wantedLanes))(LaneNumbers.of)
    PartitionView(
      current.operator,
      index,
      running = session.isWorking,
      lanes = stats.fold(wantedLanes)(_.activeLanes),
      wantedLanes = wantedLanes,
      auto = auto,
      lastBatch = lastBatch,
      routing = stats.fold(routing.clone())(s => s.routing.map(lanes.shown)),
      loads = balancer.loads,
      rowsIn = now.rowsIn,
      rowsOut = passed.rowsOut,
      bytesIn = passed.bytesIn,
      bytesOut = passed.bytesOut,
      rowsInPerSecond = rates.perSecond(_.rowsIn),
      rowsOutPerSecond = rates.perSecond(_.flow.rowsOut),
      bytesInPerSecond = rates.perSecond(_.flow.bytesIn),
      bytesOutPerSecond = rates.perSecond(_.flow.bytesOut),
      laneBusy = lanes.show(rates.busy, 0.0),
      laneRows = lanes.show(now.laneRows, 0L),
      rowsTaken = now.laneRows.sum,
      busyNs = now.busyNs.sum,
      // Behind the slots of lanes at home.
      rowsTakenElsewhere = now.laneRows.drop(current.options.maxLanes).sum,
      busyElsewhereNs = now.busyNs.drop(current.options.maxLanes).sum,
      blockedNs = now.blockedNs,
      queueRows = stats.fold(Array.empty[Long])(s => lanes.show(s.queueRows, 0L)),
      queueBytes = stats.fold(Array.empty[Long])(s => lanes.show(s.queueBytes, 0L)),
      inFlight = stats.fold(0)(_.inFlight),
      handoffs = meter.handoffs,
      handoffsPerSecond = rates.perSecond(_.handoffs),
      pauseUs = meter.pauseView,
      wantedElsewhere = wantedElsewhere.toSeq.map { case (host, lanes) => host.executorId -> lanes }.sorted,
      elsewhere = elsewhere.map(e => e.copy(lane = lanes.shown(e.lane))),
      elsewhereNote = elsewhereNote,
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

/** What one task has of its process's lanes: the first is its own. */
private[runtime] final class LaneGrant(budget: LaneBudget) {
  private var more = 0
  private var over = false

  def lanes: Int = synchronized(1 + more)

  /** Takes up to `wanted` more and says how many. */
  def take(wanted: Int): Int = synchronized {
    val got = if (over) 0 else budget.take(wanted)
    more += got
    got
  }

  /** Gives back what is beyond `lanes`. */
  def keep(lanes: Int): Unit = synchronized {
    val back = math.max(0, more - (lanes - 1))
    budget.give(back)
    more -= back
  }

  def giveBack(): Unit = synchronized {
    keep(1)
    over = true
  }
}
