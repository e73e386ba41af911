package laneshift.lane

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.{Lock, ReentrantLock}

import scala.collection.mutable.ArrayBuffer

import laneshift.ids.{LaneId, ShardId}
import laneshift.routing.{Handoff, MoveReason, RoutingTable}
import laneshift.testing.{Fault, Faults}

/** Thrown to whoever uses an inlet or outlet after the partition has failed or was stopped. */
final class PartitionStopped(cause: Throwable)
    extends RuntimeException("the elastic partition has stopped", cause)

/** Bounds of one partition's buffers. */
final case class InletLimits(maxLanes: Int, queueBytes: Long) {

  /** Bytes of rows that all queues of the partition hold together before the receiver waits. One row more at most, and what
    * lanes that had taken a block give back of it in a handoff: at most one block per lane.
    */
  def totalBytes: Long = maxLanes * queueBytes
}

/** What `take` gives a lane. */
sealed trait Taken[+R]

object Taken {
  final case class Rows[R](block: RowBlock[R]) extends Taken[R]

  /** A shard of this lane is wanted elsewhere: see [[Inlet.letGo]]. */
  case object Recall extends Taken[Nothing]

  /** What follows is of the next input. */
  case object NextInput extends Taken[Nothing]
  case object End extends Taken[Nothing]
}

/** The way of rows from the receiver to the lanes of one elastic partition, and every handoff on it: routing table and
  * lanes' queues under one lock (docs/handoff.md is its contract).
  *
  * Who may call what: one receiver thread `offer`, `nextInput` and `finish`; lane i's thread `take(i)` and `letGo(i)`;
  * any thread the rest. Only `offer`, `finish` and `take` wait, never while anybody else needs the lock: each is a loop of
  * attempts, which change everything or nothing, and of waits for a signal.
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
) {
  import Inlet.Waiting
  require(initialLanes >= 1 && initialLanes <= limits.maxLanes, s"$initialLanes lanes of ${limits.maxLanes}")

  private val receiverTurn = lock.newCondition()
  private val table = new RoutingTable(initialRouting)
  private val lanes = Array.tabulate(limits.maxLanes)(i => new LaneState(i))
  private val offered = new Array[Long](initialRouting.length)

  private var activeLanes = initialLanes
  private var startedLanes = initialLanes
  private var buffered = 0L
  private var closing = false
  private var receiverWaits = false
  private var blockedNs = 0L
  private var blockedSinceNs = 0L
  private val settled = new ArrayBuffer[Handoff]
  @volatile private var failure: Throwable = _

  private final class LaneState(val index: Int) {
    val queue = new RowQueue[R](newBlock)
    val turn = lock.newCondition()
    val recalls = new ArrayBuffer[Handoff]
    var rowsTaken = 0L
    var startedNs = 0L
    var idleNs = 0L
    var idleSinceNs = 0L
    var waiting = Waiting.No
    var hasTaken = false
    var ended = false
    @volatile var recalled = false

    /** It waits for rows and has none in hand. A lane that does not wait may be at work even before its first row: on
      * timers that are overdue when the batch begins.
      */
    def isDone: Boolean =
      (waiting != Waiting.No && (idleIsDone || !hasTaken || Faults.isOn(Fault.ReadAheadLeft))) ||
        (!hasTaken && Faults.isOn(Fault.BeforeItsFirstRow)) || Faults.isOn(Fault.SettledUnderTheLane)

    def wake(): Unit = if (waiting != Waiting.No) turn.signal()

    /** After a row was appended: a lane that looks again by itself is left alone until it is worth its while. */
    def rowCame(): Unit =
      if (waiting == Waiting.ForSignal || (waiting == Waiting.Looking && queue.rows >= Inlet.RowsWorthWaking))
        turn.signal()

    def busyUntil(nowNs: Long): Long =
      if (startedNs == 0L) 0L
      else (if (idleSinceNs == 0L) nowNs else idleSinceNs) - startedNs - idleNs
  }

  /** Runs `body` under the lock, and afterwards, without it, tells of the handoffs that it settled. */
  private def locked[T](body: => T): T = {
    var told = Seq.empty[Handoff]
    lock.lock()
    try {
      val result = body
      if (settled.nonEmpty) {
        told = settled.toList
        settled.clear()
      }
      result
    } finally {
      lock.unlock()
      told.foreach(onSettled)
    }
  }

  private def checkRunning(): Unit = if (failure != null) throw new PartitionStopped(failure)

  // ---- receiver

  /** Sends a row to its shard's lane. Waits while the buffers are full. */
  def offer(row: R, shard: Int): Unit = {
    lock.lock()
    try
      if (!tryOffer(row, shard)) {
        blockedSinceNs = clock()
        try
          do receiverTurn.await()
          while (!tryOffer(row, shard))
        finally {
          blockedNs += clock() - blockedSinceNs
          blockedSinceNs = 0L
        }
      }
    finally lock.unlock()
  }

  /** One attempt, under the lock; false if the receiver has to wait for a signal. */
  private[lane] def tryOffer(row: R, shard: Int): Boolean = {
    checkRunning()
    val lane = lanes(table.owner(shard))
    val room = (buffered < limits.totalBytes && lane.queue.bytes < limits.queueBytes) ||
      Faults.isOn(Fault.QueueUnbounded)
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
    if (waits) lanes.foreach(l => if (l.queue.rows > 0) l.wake())
  }

  private def wakeReceiver(): Unit = if (receiverWaits) receiverTurn.signal()

  /** What is offered from here on is of the next input: each lane meets the boundary behind its rows so far. Only for
    * partitions whose shards do not move within a batch.
    */
  def nextInput(): Unit = locked {
    checkRunning()
    require(table.inFlight == 0, "a shard moves between two inputs")
    lanes.take(startedLanes).foreach { lane =>
      if (!(Faults.isOn(Fault.BoundaryBehindRowsOnly) && lane.queue.isEmpty)) lane.queue.addBoundary()
      lane.wake()
    }
  }

  /** Ends the input: waits for every handoff in flight, then tells each lane that nothing more will come. `fixed` gets the
    * routing and the number of lanes ever started, both final, before any lane can see the end.
    */
  def finish(fixed: (Array[Int], Int) => Unit): Unit = locked {
    while (!tryFinish(fixed)) receiverTurn.await()
  }

  /** One attempt, under the lock; false if the receiver has to wait for a signal. No move begins from the first on. */
  private[lane] def tryFinish(fixed: (Array[Int], Int) => Unit): Boolean = {
    closing = true
    checkRunning()
    val over = table.inFlight == 0 || Faults.isOn(Fault.EndBeforeHandoffs)
    noteReceiver(waits = !over)
    if (over) {
      fixed(table.toArray, if (Faults.isOn(Fault.RetiredNotAwaited)) activeLanes else startedLanes)
      var i = 0
      while (i < startedLanes) {
        lanes(i).ended = true
        lanes(i).turn.signal()
        i += 1
      }
    }
    over
  }

  // ---- lanes

  /** True if lane `lane` has to give up a shard: cheap enough to ask before every row. */
  def isRecalled(lane: LaneId): Boolean = lanes(lane.value).recalled

  /** The next rows of a lane, a recall, or the end; waits for one of them.
    *
    * A lane that has been idle for a short time looks again by itself every now and then, so that under load the receiver
    * need not wake it for every row. Recalls, the end and many rows wake it at once.
    */
  def take(lane: LaneId): Taken[R] = {
    val turn = lanes(lane.value).turn
    var looks = Inlet.LooksBeforeWaiting
    locked {
      if (lanes(lane.value).startedNs == 0L) lanes(lane.value).startedNs = clock()
      var taken = tryTake(lane, looks > 0)
      while (taken == null) {
        if (looks > 0) {
          looks -= 1
          turn.awaitNanos(Inlet.LookNs)
        } else turn.await()
        taken = tryTake(lane, looks > 0)
      }
      taken
    }
  }

  /** One attempt, under the lock; null if the lane has to wait, for a signal or, if it `looksAgain`, for a short time. */
  private[lane] def tryTake(lane: LaneId, looksAgain: Boolean): Taken[R] = {
    val state = lanes(lane.value)
    val taken = ready(state)
    if (taken == null) {
      state.waiting = if (looksAgain) Waiting.Looking else Waiting.ForSignal
      if (state.idleSinceNs == 0L) state.idleSinceNs = clock()
    } else {
      state.waiting = Waiting.No
      if (state.idleSinceNs != 0L) state.idleNs += clock() - state.idleSinceNs
      state.idleSinceNs = 0L
    }
    taken
  }

  /** The lane has waited outside, to get rid of its outputs: that is not work. */
  def waited(lane: LaneId, ns: Long): Unit = locked(lanes(lane.value).idleNs += ns)

  /** The lane's thread has ended. */
  def left(lane: LaneId): Unit = locked {
    if (lanes(lane.value).idleSinceNs == 0L) lanes(lane.value).idleSinceNs = clock()
  }

  /** What `take` gives the lane now, or null. */
  private def ready(state: LaneState): Taken[R] = {
    checkRunning()
    if (state.recalls.nonEmpty) Taken.Recall
    else if (!state.queue.isEmpty) {
      val block = state.queue.poll()
      buffered -= block.bytes
      state.rowsTaken += block.rows
      state.hasTaken = true
      wakeReceiver()
      if (block.isInstanceOf[Boundary[_]]) Taken.NextInput else Taken.Rows(block)
    } else if (state.ended) Taken.End
    else null
  }

  /** The lane gives up every shard that is wanted elsewhere: what it has worked on of them is done, and its outputs are on
    * the outlet. `block` (or null) is what it has taken and worked on up to row `at`; `noticedNs` is when it saw the recall.
    */
  def letGo(lane: LaneId, block: RowBlock[R], at: Int, noticedNs: Long): Unit = locked {
    checkRunning()
    val from = lanes(lane.value)
    val leaving = if (Faults.isOn(Fault.RecallForgotten)) from.recalls.take(1).toList else from.recalls.toList
    from.recalls --= leaving
    from.recalled = false
    leaving.foreach { handoff =>
      handoff.noticedNs = math.max(handoff.begunNs, noticedNs)
      settle(handoff, block, at)
    }
  }

  /** Routes the shard to its new lane, with the rows that nobody has worked on: what its lane had taken, then its queue. */
  private def settle(handoff: Handoff, block: RowBlock[R], at: Int): Unit = {
    val shard = handoff.shard.value
    val from = lanes(handoff.from.value)
    val to = lanes(handoff.to.value)
    handoff.flushedNs = clock()
    buffered -= from.queue.bytes + to.queue.bytes
    if (!Faults.isOn(Fault.RemainderBehindQueue)) moveTaken(handoff, block, at)
    if (!Faults.isOn(Fault.QueueNotRecalled)) handoff.movedRows += from.queue.extract(shard, to.queue)
    if (Faults.isOn(Fault.RemainderBehindQueue)) moveTaken(handoff, block, at)
    buffered += from.queue.bytes + to.queue.bytes
    table.settle(handoff)
    handoff.settledNs = clock()
    if (!Faults.isOn(Fault.LaneNotWoken)) to.wake()
    // Its row may have room now, in the queue that the shard has left or come to.
    if (!Faults.isOn(Fault.ReceiverNotWoken)) wakeReceiver()
    settled += handoff
    if (!closing && handoff.to.value >= activeLanes && !Faults.isOn(Fault.LeftOnRetired)) retire(shard)
  }

  private def moveTaken(handoff: Handoff, block: RowBlock[R], at: Int): Unit = if (block != null) {
    val to =
      if (Faults.isOn(Fault.RemainderDropped)) new RowQueue[R](newBlock) else lanes(handoff.to.value).queue
    val rows = block.extract(handoff.shard.value, at, to)
    lanes(handoff.from.value).rowsTaken -= rows
    handoff.movedRows += rows
  }

  // ---- control

  /** Starts the handoff of a shard; `Left` says why it cannot be. */
  def move(shard: ShardId, to: LaneId, reason: MoveReason): Either[String, Handoff] = locked {
    if (failure != null || (closing && !Faults.isOn(Fault.MovedAtTheEnd)))
      Left("the batch is ending")
    else if (to.value >= activeLanes) Left(s"lane ${to.value} is not one of the $activeLanes lanes")
    else if (table.handoffOf(shard.value) != null) Left(s"${table.handoffOf(shard.value)} is under way")
    else if (table.owner(shard.value) == to.value)
      Left(s"shard ${shard.value} is on lane ${to.value} already")
    else Right(begin(shard.value, to.value, reason))
  }

  private def begin(shard: Int, to: Int, reason: MoveReason): Handoff = {
    val handoff = table.begin(handoffIds(), ShardId(shard), LaneId(to), reason, clock())
    val from = lanes(handoff.from.value)
    if (from.isDone) {
      handoff.noticedNs = handoff.begunNs
      settle(handoff, null, 0)
    } else {
      from.recalls += handoff
      from.recalled = true
      from.wake()
    }
    handoff
  }

  /** Changes the number of lanes that own shards, and says how many there are now: fewer if some cannot start. New lanes start
    * empty: a planner fills them. Lanes beyond `count` hand their shards to the others and then sit idle until they are
    * wanted again or the batch ends.
    */
  def setLanes(count: Int): Either[String, Int] = {
    require(count >= 1 && count <= limits.maxLanes, s"lanes must be 1..${limits.maxLanes}, not $count")
    locked {
      if (failure != null || closing) Left("the batch is ending")
      else {
        // Threads start under the lock: an end of the batch in between would miss them.
        while (startedLanes < count && started(LaneId(startedLanes))) ()
        activeLanes = math.min(count, startedLanes)
        (0 until table.shards).foreach { s =>
          if (table.owner(s) >= activeLanes && table.handoffOf(s) == null) retire(s)
        }
        Right(activeLanes)
      }
    }
  }

  /** Starts a lane, which is counted from then on: one that cannot start would be waited for. */
  private def started(lane: LaneId): Boolean =
    try {
      if (Faults.isOn(Fault.CountedUnstarted)) startedLanes += 1
      startLane(lane)
      if (!Faults.isOn(Fault.CountedUnstarted)) startedLanes += 1
      true
    } catch { case _: LaneNotStarted => false }

  /** Sends a shard of a lane that is to be retired to the lane that will own the fewest. */
  private def retire(shard: Int): Unit = {
    val counts = new Array[Int](activeLanes)
    (0 until table.shards).foreach { s =>
      val d = table.destination(s)
      if (d < activeLanes) counts(d) += 1
    }
    begin(shard, counts.indexOf(counts.min), MoveReason.Scale)
  }

  /** Stops everybody: each waiting or later call throws. The first cause counts. */
  def fail(cause: Throwable): Unit = locked {
    if (failure == null) failure = cause
    if (!Faults.isOn(Fault.FailureUnheard)) receiverTurn.signalAll()
    lanes.foreach(_.turn.signalAll())
  }

  /** The lane that may touch the shard's state now. */
  def owner(shard: Int): Int = locked(table.owner(shard))

  /** The owner of each shard at this moment. */
  def routing: Array[Int] = locked(table.toArray)

  /** Bytes of rows in all queues. */
  def bufferedBytes: Long = locked(buffered)

  /** The table and the blocks of a lane's queue, as they are: for tests. */
  private[lane] def routingTable: RoutingTable = table
  private[lane] def queued(lane: Int): java.lang.Iterable[RowBlock[R]] = lanes(lane).queue.contents

  def stats: InletStats = locked {
    val now = clock()
    InletStats(
      table.toArray,
      Array.tabulate(table.shards)(table.destination),
      activeLanes,
      startedLanes,
      table.inFlight,
      offered.clone(),
      lanes.take(startedLanes).map(_.rowsTaken),
      lanes.take(startedLanes).map(_.queue.rows),
      lanes.take(startedLanes).map(_.queue.bytes),
      lanes.take(startedLanes).map(_.busyUntil(now)),
      blockedNs + (if (blockedSinceNs == 0L) 0L else now - blockedSinceNs)
    )
  }
}

object Inlet {

  /** What a lane without rows does. */
  private object Waiting extends Enumeration {
    val No, Looking, ForSignal = Value
  }

  /** How often an idle lane looks again by itself before it waits for a signal, and how long it waits in between. Where rows
    * are farther apart than that, one signal for each is cheaper than more looks: a look costs about as much.
    */
  private val LooksBeforeWaiting = 4
  private val LookNs = TimeUnit.MICROSECONDS.toNanos(500)

  /** So many queued rows wake a lane that would look again by itself. */
  private val RowsWorthWaking = 32
}

/** A consistent view of an inlet; arrays are by shard (`routing`, `destinations`, `offered`) or by lane. `destinations` is
  * the routing once everything in flight has settled. `busyNs` counts from a lane's first row, without its waits for rows
  * and for room behind it; `blockedNs` is how long the receiver has waited for room.
  */
final case class InletStats(
    routing: Array[Int],
    destinations: Array[Int],
    activeLanes: Int,
    startedLanes: Int,
    inFlight: Int,
    offered: Array[Long],
    laneRows: Array[Long],
    queueRows: Array[Long],
    queueBytes: Array[Long],
    busyNs: Array[Long],
    blockedNs: Long
)
