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
  * Lanes here are there from their start. Others come and go ([[InletLane]]): when one leaves, or the input ends, its shards are
  * handed to lanes that stay.
  *
  * @param idleIsDone a lane that waits in `take` has worked on all that it has taken and has put its outputs out: whatever
  *   it owns may go without it
  */
final class Inlet[R](
    private[lane] val limits: InletLimits,
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
  import InletLane.Waiting

  private val table = new RoutingTable(initialRouting)
  private val turns = Array.fill(limits.slots)(newTurn())
  private val works = Array.fill(limits.slots)(new LaneClock(clock))
  private val lanes = Array.tabulate[InletLane[R]](limits.slots)(i =>
    if (i < limits.maxLanes) new LocalLane(i) else new NoLane(i)
  )
  private val offered = new Array[Long](initialRouting.length)

  private var buffered = 0L

  /** The input has ended; lanes elsewhere may still be at its rows, and shards may move. */
  private var inputEnded = false

  /** No move begins any more. */
  private var closing = false

  /** No lane comes or goes, and no shard moves. */
  private var isFixed = false
  private val settled = new ArrayBuffer[Handoff]

  private final class LocalLane(number: Int) extends InletLane[R](number, Inlet.this) {
    override def isRemote: Boolean = false
    override def owns: Boolean = index < activeLanes
    override def staysToTheEnd: Boolean = index < startedLanes

    /** It waits for rows and has none in hand. A lane that does not wait may be at work even before its first row: on
      * timers that are overdue when the batch begins.
      */
    override def isDone: Boolean = waiting != Waiting.No && (idleIsDone || !hasTaken)

    def tryTake(looksAgain: Boolean): Taken[R] = {
      val taken =
        if (this.recalls.nonEmpty) Taken.Recall
        else if (!queue.isEmpty) takeBlock(this)
        else if (inputHasEnded) Taken.End
        else null
      val how = if (looksAgain) Waiting.Looking else Waiting.ForSignal
      waits(if (taken == null) how else Waiting.No, isIdle = taken == null)
      taken
    }
  }

  /** A remote lane's number while there is none. */
  private final class NoLane(number: Int) extends InletLane[R](number, Inlet.this) {
    override def isRemote: Boolean = true
    override def owns: Boolean = false
    override def staysToTheEnd: Boolean = false
    override def isDone: Boolean = true
  }

  private[lane] def workOf(lane: Int): LaneClock = works(lane)
  private[lane] def turnOf(lane: Int): Condition = turns(lane)
  private[lane] def newQueue(): RowQueue[R] = new RowQueue[R](newBlock)
  private[lane] def newDepth(): Option[QueueDepth] = limits.queueTime.map(new QueueDepth(_))

  /** Runs `body` under the lock, and afterwards, without it, tells of the handoffs that it settled. */
  override private[lane] def locked[T](body: => T): T = {
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
    val lane = lanes(table.owner(shard))
    val room = findRoom(lane)
    if (room) {
      offered(shard) += 1
      buffered -= lane.queue.bytes
      lane.queue.append(row, shard)
      buffered += lane.queue.bytes
      lane.rowCame()
    }
    room
  }

  /** Gives a lane rows of its shards, where shards do not move within a batch. Waits while the buffers are full. */
  def offer(rows: RowBlock[R], to: LaneId): Unit = offering(tryOffer(rows, to))

  /** One attempt, under the lock; false if the receiver has to wait for a signal. */
  private[lane] def tryOffer(rows: RowBlock[R], to: LaneId): Boolean = {
    require(isFixed, "shards may leave the lane")
    val lane = lanes(to.value)
    val room = findRoom(lane)
    if (room) {
      (0 until rows.size).foreach(i => offered(rows.shardAt(i)) += 1)
      lane.queue.add(rows)
      buffered += rows.bytes
      lane.rowCame()
    }
    room
  }

  private def findRoom(lane: InletLane[R]): Boolean = {
    checkRunning()
    val room = buffered < limits.totalBytes && lane.hasQueueRoom
    noteReceiver(waits = !room)
    room
  }

  /** A receiver that has to wait wakes the lanes that have rows but would look again by themselves. */
  private def noteReceiver(waits: Boolean): Unit = {
    receiverWaits = waits
    if (waits) lanes.foreach(_.makeRoom())
  }

  /** What is offered from here on is of the next input: each lane meets the boundary behind its rows so far. Only for
    * partitions whose shards do not move within a batch.
    */
  def nextInput(): Unit = locked {
    checkRunning()
    require(table.inFlight == 0, "a shard moves between two inputs")
    lanes.foreach(lane =>
      if (lane.staysToTheEnd) {
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
    closing ||= isFixed || !someHaveBacklog
    if (closing && !isFixed) lanes.filter(_.leaves()).foreach(handAway)
    val over = closing && table.inFlight == 0
    noteReceiver(waits = !over)
    if (over) {
      val last = lanes.filter(_.staysToTheEnd)
      fixed(table.toArray, last.map(_.index).toSeq)
      last.foreach { lane =>
        lane.inputHasEnded = true
        turns(lane.index).signal()
      }
    }
    over
  }

  /** Were their shards handed away now, few lanes would be left for what all have queued. */
  private def someHaveBacklog: Boolean = lanes.exists(_.hasBacklog)

  // ---- lanes

  /** True if lane `lane` has to give up a shard: cheap enough to ask before every row. */
  def isRecalled(lane: LaneId): Boolean = lanes(lane.value).isRecalled

  /** The next rows of a lane, a recall, or the end; waits for one of them. Recalls, the end and many rows wake it at once. */
  def take(lane: LaneId): Taken[R] = locked {
    val turn = turns(lane.value)
    works(lane.value).begin()
    looking(turn, looks = true)(turn.await())(tryTake(lane, _))
  }

  /** One attempt, under the lock; null if the lane has to wait, for a signal or, if it `looksAgain`, for a short time. */
  private[lane] def tryTake(lane: LaneId, looksAgain: Boolean): Taken[R] = {
    checkRunning()
    lanes(lane.value).asInstanceOf[LocalLane].tryTake(looksAgain)
  }

  /** The lane has waited outside, to get rid of its outputs: that is not work. */
  def waited(lane: LaneId, ns: Long): Unit = locked(works(lane.value).waited(ns))

  /** The lane's thread has ended. */
  def left(lane: LaneId): Unit = locked(works(lane.value).rests())

  /** The next block of a lane's queue, which is not empty. */
  private[lane] def takeBlock(lane: InletLane[R]): Taken[R] with TakenRemote[R] = {
    val block = lane.poll()
    buffered -= block.bytes
    wakeReceiver()
    if (block.isInstanceOf[Boundary[_]]) Taken.NextInput else Taken.Rows(block)
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
    from.isRecalled = from.recalls.nonEmpty
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
    to.shardCame(shard)
    to.wake()
    from.shardWent()
    // Its row may have room now, in the queue that the shard has left or come to.
    wakeReceiver()
    settled += handoff
    if (!to.owns && (to.isRemote || !closing)) retire(shard, MoveReason.Scale)
  }

  private def moveTaken(handoff: Handoff, taken: Remainder[R]): Unit = {
    val rows = taken.block.extract(handoff.shard.value, taken.from, lanes(handoff.to.value).queue)
    works(handoff.from.value).rows -= rows
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
    } else from.recall(handoff)
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

  // ---- lanes that come and go

  /** The lane comes, and shards may; false if the input ends already. */
  private[lane] def admit(lane: InletLane[R]): Boolean = locked {
    val comes = failure == null && !closing && !isFixed
    if (comes) {
      lanes(lane.index) = lane
      lane.work.begin(atRest = true)
    }
    comes
  }

  /** Under the lock: the lane is there, and nobody is stopped. */
  private[lane] def has(lane: InletLane[R]): Boolean = failure == null && (lanes(lane.index) eq lane)

  /** Under the lock: the lane, which owns none any more, gives its shards to others. */
  private[lane] def handAway(lane: InletLane[R]): Unit = {
    shardsOf(lane).foreach(s => if (table.handoffOf(s) == null) retire(s, MoveReason.Scale))
    lane.wake()
    wakeReceiver()
  }

  private def shardsOf(lane: InletLane[R]): Seq[Int] =
    (0 until table.shards).filter(table.owner(_) == lane.index)

  /** Under the lock: it has no shard, and none comes to it. */
  private[lane] def isBare(lane: InletLane[R]): Boolean =
    (0 until table.shards).forall(s => table.owner(s) != lane.index && table.destination(s) != lane.index)

  /** The lane, which owns no shards any more, has gone without letting them go: they go to others at once, with `kept`, the rows
    * that it had taken and not worked on, in order, and then with what has come since.
    */
  private[lane] def takeAway(lane: InletLane[R], kept: Seq[Remainder[R]]): Unit = {
    checkRunning()
    shardsOf(lane).foreach { shard =>
      val begun = table.handoffOf(shard)
      val handoff = if (begun != null) begun else beginOnly(shard, leastOwning, MoveReason.HostLost)
      handoff.noticedNs = clock()
      settle(handoff, kept)
    }
    dismiss(lane)
  }

  /** Under the lock: the lane, which has no shards, goes. */
  private[lane] def dismiss(lane: InletLane[R]): Unit = {
    lanes(lane.index) = new NoLane(lane.index)
    lane.work.rests()
    wakeReceiver()
  }

  /** Under the lock: the end of the input may wait for somebody who has rows no more. */
  private[lane] def backlogWent(): Unit = if (inputEnded) wakeReceiver()

  /** The lane that may touch the shard's state now. */
  def owner(shard: Int): Int = locked(table.owner(shard))

  /** The owner of each shard at this moment. */
  def routing: Array[Int] = locked(table.toArray)

  /** Bytes of rows in all queues. */
  def bufferedBytes: Long = locked(buffered)

  /** The table and the blocks of a lane's queue, as they are: for tests. */
  private[lane] def routingTable: RoutingTable = table
  private[lane] def isClosing: Boolean = closing
  private[lane] def awaitsBacklog: Boolean = !closing && someHaveBacklog
  private[lane] def queued(lane: Int): java.lang.Iterable[RowBlock[R]] = lanes(lane).queue.contents

  override def stats: InletStats = locked {
    val now = clock()
    val last = lanes.lastIndexWhere(l => l.isRemote && l.work.hasBegun)
    val shown = lanes.take(math.max(startedLanes, last + 1))
    InletStats(
      table.toArray,
      Array.tabulate(table.shards)(table.destination),
      active.toArray,
      startedLanes,
      table.inFlight,
      offered.clone(),
      shown.map(_.work.rows),
      shown.map(_.queue.rows),
      shown.map(_.queue.bytes),
      shown.map(_.work.busyUntil(now)),
      blockedUntil(now)
    )
  }
}
