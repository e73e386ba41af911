package laneshift.lane

import java.util.concurrent.locks.{Condition, Lock, ReentrantLock}

import scala.collection.mutable.ArrayBuffer

import laneshift.ids.{LaneId, ShardId}
import laneshift.routing.{Handoff, MoveReason, RoutingTable}

/** The way of rows from the receiver to the lanes of one elastic partition, and every handoff on it: routing table and
  * lanes' queues under one lock (docs/handoff.md is its contract).
  *
  * Who may call what: one receiver thread `offer`, `nextInput` and `finish`; lane i's thread `take(i)` and `letGo(i)`;
  * any thread the rest. Only `offer`, `finish` and `take` wait, never while anybody else needs the lock.
  *
  * A remote lane works on another executor; its thread here speaks for it (docs/handoff.md, section 11). It owns shards from
  * `join` until it is released, lost, or the input ends: then its shards are handed to lanes that are here. Where shards do not
  * move within a batch it owns some from `fix` until `leave`.
  *
  * @param idleIsDone a lane that waits in `take` has worked on all that it has taken and has put its outputs out: whatever
  *   it owns may go without it
  */
final class Inlet[R](
    limits: InletLimits,
    initialRouting: Array[Int],
    initialLanes: Int,
    newBlock: () => RowBlock[R],
    handoffIds: () => Long,
    onSettled: Handoff => Unit,
    startLane: LaneId => Unit,
    idleIsDone: Boolean,
    clock: () => Long = () => System.nanoTime(),
    lock: Lock = new ReentrantLock
) extends LaneFeed(limits.maxLanes, initialLanes, startLane, clock, lock) {
  import Inlet.{Presence, Waiting}

  private val table = new RoutingTable(initialRouting)
  private val lanes = Array.tabulate(limits.slots)(i => new LaneState(i, newTurn()))
  private val offered = new Array[Long](initialRouting.length)

  private var buffered = 0L

  /** The input has ended; hosts may still be at its rows, and shards may move. */
  private var inputEnded = false

  /** No move begins any more. */
  private var closing = false

  /** No lane comes or goes, and no shard moves. */
  private var isFixed = false
  private val settled = new ArrayBuffer[Handoff]

  private final class LaneState(val index: Int, val turn: Condition) extends LaneClock(clock) {
    val queue = new RowQueue[R](newBlock)
    val recalls = new ArrayBuffer[Handoff]
    var rowsTaken = 0L
    var waitedNs = 0L
    private val depth = limits.queueTime.map(new QueueDepth(_))
    var waiting = Waiting.No
    var hasTaken = false
    var ended = false
    @volatile var recalled = false

    /** Of a remote lane: where its session is; whether it may be at something; whether frames cover all that it has taken; what it
      * has not been told.
      */
    var presence = Presence.Away
    var isBusy = false
    var isCovered = true
    var poked = false
    val arrived = new ArrayBuffer[Int]

    def isRemote: Boolean = index >= limits.maxLanes

    /** Whether shards may come to it. */
    def owns: Boolean =
      if (isRemote) presence == Presence.There && (isFixed || !closing) else index < activeLanes

    /** A remote lane that is to work on them has rows. */
    def hasBacklog: Boolean = presence == Presence.There && !(isCovered && queue.isEmpty)

    /** Whether it goes on to the end of the batch. */
    def isInAtTheEnd: Boolean =
      if (isRemote) isFixed && presence == Presence.There else index < startedLanes

    /** It waits for rows and has none in hand. A lane that does not wait may be at work even before its first row: on
      * timers that are overdue when the batch begins.
      */
    def isDone: Boolean = if (isRemote) isDoneElsewhere else isDoneHere

    private def isDoneElsewhere: Boolean = presence == Presence.Away || (waiting != Waiting.No && !isBusy)

    private def isDoneHere: Boolean = waiting != Waiting.No && (idleIsDone || !hasTaken)

    def wake(): Unit = if (waiting != Waiting.No) turn.signal()

    /** After a row was appended: a lane that looks again by itself is left alone until it is worth its while. */
    def rowCame(): Unit =
      if (waiting == Waiting.ForSignal || (waiting == Waiting.Looking && queue.rows >= LaneFeed.RowsWorthWaking))
        turn.signal()

    /** It has room for a row more. */
    def hasRoom: Boolean =
      queue.bytes < limits.queueBytes && (depth.isEmpty || queue.rows < depth.get.rows)

    /** A block is about to be taken: all before it is worked on, and its outputs are put out. */
    def measureDepth(): Unit = if (depth.nonEmpty) depth.get.note(rowsTaken, busyUntil(clock()) + waitedNs)
  }

  /** Runs `body` under the lock, and afterwards, without it, tells of the handoffs that it settled. */
  override protected def locked[T](body: => T): T = {
    var told = Seq.empty[Handoff]
    try
      super.locked {
        val result = body
        if (settled.nonEmpty) {
          told = settled.toList
          settled.clear()
        }
        result
      }
    finally told.foreach(onSettled)
  }

  // ---- receiver

  /** For partitions whose shards do not move within a batch, before the first row: no lane joins any more. The lanes that are
    * there, in ascending order.
    */
  def fix(): Seq[Int] = locked {
    checkRunning()
    isFixed = true
    active
  }

  /** The lane of each shard from the first row to the last. */
  def route(routing: Array[Int]): Unit = locked {
    checkRunning()
    require(isFixed, "shards are given to lanes that may still change")
    require(routing.forall(lanes(_).owns), s"${routing.mkString(" ")} of lanes ${active.mkString(" ")}")
    table.reset(routing)
  }

  /** Sends a row to its shard's lane. Waits while the buffers are full. */
  def offer(row: R, shard: Int): Unit = offering(tryOffer(row, shard))

  /** One attempt, under the lock; false if the receiver has to wait for a signal. */
  private[lane] def tryOffer(row: R, shard: Int): Boolean = {
    checkRunning()
    val lane = lanes(table.owner(shard))
    val room = buffered < limits.totalBytes && lane.hasRoom
    noteReceiver(waits = !room)
    if (room) {
      offered(shard) += 1
      buffered -= lane.queue.bytes
      lane.queue.append(row, shard)
      buffered += lane.queue.bytes
      lane.rowCame()
    }
    room
  }

  /** A receiver that has to wait wakes the lanes that have rows but would look again by themselves. */
  private def noteReceiver(waits: Boolean): Unit = {
    receiverWaits = waits
    if (waits) lanes.foreach(l => if (l.queue.rows > 0 && l.waiting != Waiting.NotForRows) l.wake())
  }

  /** What is offered from here on is of the next input: each lane meets the boundary behind its rows so far. Only for
    * partitions whose shards do not move within a batch.
    */
  def nextInput(): Unit = locked {
    checkRunning()
    require(table.inFlight == 0, "a shard moves between two inputs")
    lanes.foreach(lane =>
      if (lane.isInAtTheEnd) {
        lane.queue.addBoundary()
        lane.wake()
      }
    )
  }

  /** Ends the input: waits until remote lanes have worked on what they have, then for every handoff in flight, and tells each lane
    * that nothing more will come. `fixed` gets the routing and the lanes that go on to the end, all that have ever started here
    * among them: both final, before any lane can see the end.
    */
  def finish(fixed: (Array[Int], Seq[Int]) => Unit): Unit = locked {
    while (!tryFinish(fixed)) receiverTurn.await()
  }

  /** One attempt, under the lock; false if the receiver has to wait for a signal. */
  private[lane] def tryFinish(fixed: (Array[Int], Seq[Int]) => Unit): Boolean = {
    inputEnded = true
    checkRunning()
    closing ||= isFixed || !hostsHaveRows
    if (closing && !isFixed)
      lanes.foreach(lane => if (lane.presence == Presence.There) sendHome(lane))
    val over = closing && table.inFlight == 0
    noteReceiver(waits = !over)
    if (over) {
      val last = lanes.filter(_.isInAtTheEnd)
      fixed(table.toArray, last.map(_.index).toSeq)
      last.foreach { lane =>
        lane.ended = true
        lane.turn.signal()
      }
    }
    over
  }

  /** Were they sent home, few lanes would be left for what all have queued. */
  private def hostsHaveRows: Boolean = lanes.exists(_.hasBacklog)

  // ---- lanes

  /** True if lane `lane` has to give up a shard: cheap enough to ask before every row. */
  def isRecalled(lane: LaneId): Boolean = lanes(lane.value).recalled

  /** The next rows of a lane, a recall, or the end; waits for one of them. Recalls, the end and many rows wake it at once. */
  def take(lane: LaneId): Taken[R] = locked {
    val state = lanes(lane.value)
    state.begin()
    looking(state.turn, looks = true)(state.turn.await())(tryTake(lane, _))
  }

  /** One attempt, under the lock; null if the lane has to wait, for a signal or, if it `looksAgain`, for a short time. */
  private[lane] def tryTake(lane: LaneId, looksAgain: Boolean): Taken[R] = {
    val state = lanes(lane.value)
    val taken = ready(state)
    val waits = if (looksAgain) Waiting.Looking else Waiting.ForSignal
    noteIdle(state, if (taken == null) waits else Waiting.No, isIdle = taken == null)
    taken
  }

  private def noteIdle(state: LaneState, waiting: Waiting.Value, isIdle: Boolean): Unit = {
    state.waiting = waiting
    if (isIdle) state.rests() else state.works()
  }

  /** The lane has waited outside, to get rid of its outputs: that is not work. */
  def waited(lane: LaneId, ns: Long): Unit = locked {
    lanes(lane.value).waited(ns)
    lanes(lane.value).waitedNs += ns
  }

  /** The lane's thread has ended. */
  def left(lane: LaneId): Unit = locked(lanes(lane.value).rests())

  /** What `take` gives the lane now, or null. */
  private def ready(state: LaneState): Taken[R] = {
    checkRunning()
    if (state.recalls.nonEmpty) Taken.Recall
    else if (!state.queue.isEmpty) {
      val block = takeBlock(state)
      if (block.isInstanceOf[Boundary[_]]) Taken.NextInput else Taken.Rows(block)
    } else if (state.ended) Taken.End
    else null
  }

  private def takeBlock(state: LaneState): RowBlock[R] = {
    state.measureDepth()
    val block = state.queue.poll()
    buffered -= block.bytes
    state.rowsTaken += block.rows
    state.hasTaken = true
    wakeReceiver()
    block
  }

  /** The shards that the lane is to give up now. */
  def recalls(lane: LaneId): Seq[Recalled] = locked {
    lanes(lane.value).recalls.toList.map { handoff =>
      Recalled(handoff.shard.value, leaves = lanes(handoff.to.value).isRemote)
    }
  }

  /** The lane gives up the recalled shards that are in `shards`: what it has worked on of them is done, its outputs are on the
    * outlet, and for a shard that leaves this process, its state is in the store. `taken` is what it has taken and not worked on,
    * in order; `noticedNs` is when it saw the recall. It sees other recalls again.
    */
  def letGo(lane: LaneId, taken: Seq[Remainder[R]], noticedNs: Long, shards: Seq[Int]): Unit = locked {
    checkRunning()
    val from = lanes(lane.value)
    val leaving = from.recalls.toList.filter(h => shards.contains(h.shard.value))
    from.recalls --= leaving
    from.recalled = from.recalls.nonEmpty
    leaving.foreach { handoff =>
      handoff.noticedNs = math.max(handoff.begunNs, noticedNs)
      settle(handoff, taken)
    }
  }

  /** Routes the shard to its new lane, with the rows that nobody has worked on: what its lane had taken, then its queue. */
  private def settle(handoff: Handoff, taken: Seq[Remainder[R]]): Unit = {
    val shard = handoff.shard.value
    val from = lanes(handoff.from.value)
    val to = lanes(handoff.to.value)
    handoff.flushedNs = clock()
    buffered -= from.queue.bytes + to.queue.bytes
    taken.foreach(moveTaken(handoff, _))
    handoff.movedRows += from.queue.extract(shard, to.queue)
    buffered += from.queue.bytes + to.queue.bytes
    table.settle(handoff)
    handoff.settledNs = clock()
    if (to.isRemote) to.arrived += shard
    to.wake()
    if (from.presence == Presence.Leaving) from.wake()
    // Its row may have room now, in the queue that the shard has left or come to.
    wakeReceiver()
    settled += handoff
    if (!to.owns && (to.isRemote || !closing)) retire(shard, MoveReason.Scale)
  }

  private def moveTaken(handoff: Handoff, taken: Remainder[R]): Unit = {
    val rows = taken.block.extract(handoff.shard.value, taken.from, lanes(handoff.to.value).queue)
    lanes(handoff.from.value).rowsTaken -= rows
    handoff.movedRows += rows
  }

  // ---- control

  /** Starts the handoff of a shard; `Left` says why it cannot be. */
  def move(shard: ShardId, to: LaneId, reason: MoveReason): Either[String, Handoff] = locked {
    if (failure != null || closing) Left("the batch is ending")
    else if (to.value >= limits.slots || !lanes(to.value).owns)
      Left(s"lane ${to.value} is not one of the lanes, which are ${active.mkString(", ")}")
    else if (table.handoffOf(shard.value) != null) Left(s"${table.handoffOf(shard.value)} is under way")
    else if (table.owner(shard.value) == to.value)
      Left(s"shard ${shard.value} is on lane ${to.value} already")
    else Right(begin(shard.value, to.value, reason))
  }

  private def beginOnly(shard: Int, to: Int, reason: MoveReason): Handoff =
    table.begin(handoffIds(), ShardId(shard), LaneId(to), reason, clock())

  private def begin(shard: Int, to: Int, reason: MoveReason): Handoff = {
    val handoff = beginOnly(shard, to, reason)
    val from = lanes(handoff.from.value)
    // A lane that is here may keep something of the shard in memory: a lane elsewhere needs it in the store.
    if (from.isDone && (from.isRemote || !lanes(to).isRemote)) {
      handoff.noticedNs = handoff.begunNs
      settle(handoff, Nil)
    } else {
      from.recalls += handoff
      from.recalled = true
      from.wake()
    }
    handoff
  }

  override protected def isEnding: Boolean = closing

  /** Lanes that are new have no shard: a planner fills them. */
  override protected def lanesChanged(): Unit = (0 until table.shards).foreach { s =>
    if (!lanes(table.owner(s)).owns && table.handoffOf(s) == null) retire(s, MoveReason.Scale)
  }

  /** Sends a shard of a lane that must not have it to the lane that will own the fewest. */
  private def retire(shard: Int, reason: MoveReason): Unit = begin(shard, leastOwning, reason)

  private def leastOwning: Int = {
    val counts = new Array[Int](limits.slots)
    (0 until table.shards).foreach(s => counts(table.destination(s)) += 1)
    active.minBy(counts(_))
  }

  /** Lanes that shards may come to, in ascending order. */
  private def active: Seq[Int] = lanes.indices.filter(lanes(_).owns)

  // ---- remote lanes

  /** The remote lane's session is open: shards may come to it. False if the input ends already. */
  def join(lane: LaneId): Boolean = locked {
    val state = lanes(lane.value)
    require(state.isRemote, s"lane ${lane.value} is not remote")
    if (failure == null && !closing && !isFixed && state.presence == Presence.Away) {
      state.presence = Presence.There
      state.isCovered = true
      state.begin()
      state.rests()
    }
    state.presence == Presence.There
  }

  /** The remote lane is not wanted any more: its shards go to others, and then it gets the end. */
  def release(lane: LaneId): Unit = locked {
    val state = lanes(lane.value)
    if (failure == null && state.presence == Presence.There) sendHome(state)
  }

  private def sendHome(state: LaneState): Unit = {
    state.presence = Presence.Leaving
    shardsOf(state).foreach(s => if (table.handoffOf(s) == null) retire(s, MoveReason.Scale))
    state.wake()
    wakeReceiver()
  }

  private def shardsOf(state: LaneState): Seq[Int] =
    (0 until table.shards).filter(table.owner(_) == state.index)

  /** The remote lane is no more, and what it was sent and has not acknowledged was never worked on: its shards go to others at
    * once, with `kept`, those rows in order, and then with what has come since.
    */
  def lost(lane: LaneId, kept: Seq[Remainder[R]]): Unit = locked {
    checkRunning()
    val state = lanes(lane.value)
    state.presence = Presence.Away
    shardsOf(state).foreach { shard =>
      val begun = table.handoffOf(shard)
      val handoff =
        if (begun != null) begun else beginOnly(shard, leastOwning, MoveReason.HostLost)
      handoff.noticedNs = clock()
      settle(handoff, kept)
    }
    leftRemote(state)
  }

  /** The remote lane has got its end, and all that it has put out is on the outlet. */
  def leave(lane: LaneId): Unit = locked {
    val state = lanes(lane.value)
    state.presence = Presence.Away
    leftRemote(state)
  }

  /** The slot is as it was, but for what it counts. */
  private def leftRemote(state: LaneState): Unit = {
    state.recalls.clear()
    state.recalled = false
    state.arrived.clear()
    state.poked = false
    state.isBusy = false
    state.waiting = Waiting.No
    while (!state.queue.isEmpty) state.queue.poll()
    state.rests()
    wakeReceiver()
  }

  /** Makes the remote lane's thread look around: [[takeRemote]] gives `Poked`. */
  def poke(lane: LaneId): Unit = locked {
    val state = lanes(lane.value)
    state.poked = true
    state.wake()
  }

  /** What is next for a remote lane's thread; waits for it.
    *
    * @param rows whether it takes rows
    * @param recalls whether it takes recalls; not while one is under way
    * @param busy whether it may be at something: then shards do not go without it
    * @param ends whether it has acknowledged all rows, and can be given its end
    */
  def takeRemote(
      lane: LaneId,
      rows: Boolean,
      recalls: Boolean,
      busy: Boolean,
      ends: Boolean
  ): TakenRemote[R] = locked {
    val turn = lanes(lane.value).turn
    looking(turn, looks = rows)(turn.await())(tryTakeRemote(lane, rows, recalls, busy, ends, _))
  }

  /** One attempt, under the lock; null if the lane's thread has to wait for a signal. */
  private[lane] def tryTakeRemote(
      lane: LaneId,
      rows: Boolean,
      recalls: Boolean,
      busy: Boolean,
      ends: Boolean,
      looksAgain: Boolean
  ): TakenRemote[R] = {
    checkRunning()
    val state = lanes(lane.value)
    state.isBusy = busy
    val taken: TakenRemote[R] =
      if (state.poked) { state.poked = false; Taken.Poked }
      else if (recalls && state.recalls.nonEmpty) Taken.Recall
      else if (rows && state.arrived.nonEmpty) {
        val shards = state.arrived.toList.distinct
        state.arrived.clear()
        Taken.Arrived(shards)
      } else if (rows && !state.queue.isEmpty) {
        val block = takeBlock(state)
        if (block.isInstanceOf[Boundary[_]]) Taken.NextInput else Taken.Rows(block)
      } else if (ends && state.queue.isEmpty && isEnding(state)) Taken.End
      else null
    val waits =
      if (!rows) Waiting.NotForRows else if (looksAgain) Waiting.Looking else Waiting.ForSignal
    noteIdle(state, if (taken == null) waits else Waiting.No, isIdle = taken == null && ends)
    state.isCovered = taken == null && ends
    if (state.isCovered && inputEnded) wakeReceiver()
    taken
  }

  private def isEnding(state: LaneState): Boolean =
    state.ended || (state.presence == Presence.Leaving && isBare(state))

  /** It has no shard, and none comes to it. */
  private def isBare(state: LaneState): Boolean =
    (0 until table.shards).forall(s => table.owner(s) != state.index && table.destination(s) != state.index)

  /** The lane that may touch the shard's state now. */
  def owner(shard: Int): Int = locked(table.owner(shard))

  /** The owner of each shard at this moment. */
  def routing: Array[Int] = locked(table.toArray)

  /** Bytes of rows in all queues. */
  def bufferedBytes: Long = locked(buffered)

  /** The table and the blocks of a lane's queue, as they are: for tests. */
  private[lane] def routingTable: RoutingTable = table
  private[lane] def isClosing: Boolean = closing
  private[lane] def awaitsHosts: Boolean = !closing && hostsHaveRows
  private[lane] def queued(lane: Int): java.lang.Iterable[RowBlock[R]] = lanes(lane).queue.contents

  override def stats: InletStats = locked {
    val now = clock()
    val last = lanes.lastIndexWhere(l => l.isRemote && l.hasBegun)
    val shown = lanes.take(math.max(startedLanes, last + 1))
    InletStats(
      table.toArray,
      Array.tabulate(table.shards)(table.destination),
      active.toArray,
      startedLanes,
      table.inFlight,
      offered.clone(),
      shown.map(_.rowsTaken),
      shown.map(_.queue.rows),
      shown.map(_.queue.bytes),
      shown.map(_.busyUntil(now)),
      blockedUntil(now)
    )
  }
}

object Inlet {

  /** Where a remote lane's session is: there is none, it may own shards, or it hands them away. */
  private object Presence extends Enumeration {
    val Away, There, Leaving = Value
  }

  /** What a lane without rows does. */
  private object Waiting extends Enumeration {
    val No, Looking, ForSignal, NotForRows = Value
  }
}
