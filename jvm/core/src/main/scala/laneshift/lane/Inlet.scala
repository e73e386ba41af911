package laneshift.lane

import java.util.ArrayDeque
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
final case class InletLimits(maxLanes: Int, queueBytes: Long, holdBytes: Long) {

  /** Bytes of rows that all queues and holds of the partition hold together before the receiver waits. One row more at
    * most, and what lanes that had taken a block give back of it in a handoff: at most one block per lane.
    */
  def totalBytes: Long = maxLanes * queueBytes + holdBytes
}

/** What `take` gives a lane. */
sealed trait Taken[+R]

object Taken {
  final case class Rows[R](block: RowBlock[R]) extends Taken[R]

  /** A shard of this lane is wanted elsewhere: see [[Inlet.recalls]]. */
  case object Recall extends Taken[Nothing]

  /** What follows is of the next input. */
  case object NextInput extends Taken[Nothing]
  case object End extends Taken[Nothing]
}

/** The way of rows from the receiver to the lanes of one elastic partition, and every handoff on it: routing table,
  * lanes' queues and held rows under one lock (docs/handoff.md is its contract).
  *
  * Who may call what: one receiver thread `offer`, `nextInput` and `finish`; lane i's thread `take(i)`, `recalls(i)`, `acknowledge`;
  * any thread the rest. Only `offer`, `finish` and `take` wait, never while anybody else needs the lock: each is a loop of
  * attempts, which change everything or nothing, and of waits for a signal.
  */
final class Inlet[R](
    limits: InletLimits,
    initialRouting: Array[Int],
    initialLanes: Int,
    newBlock: () => RowBlock[R],
    handoffIds: () => Long,
    onSettled: Handoff => Unit,
    startLane: LaneId => Unit,
    clock: () => Long = () => System.nanoTime(),
    lock: Lock = new ReentrantLock
) {
  import Inlet.Waiting
  require(initialLanes >= 1 && initialLanes <= limits.maxLanes, s"$initialLanes lanes of ${limits.maxLanes}")

  private val receiverTurn = lock.newCondition()
  private val table = new RoutingTable(initialRouting)
  private val lanes = Array.tabulate(limits.maxLanes)(i => new LaneState(i))
  private val holds = new Array[Hold[R]](initialRouting.length)
  private val offered = new Array[Long](initialRouting.length)

  private var activeLanes = initialLanes
  private var startedLanes = initialLanes
  private var buffered = 0L
  private var held = 0L
  private var closing = false
  private var receiverWaits = false
  private var blockedNs = 0L
  private var blockedSinceNs = 0L
  private val settled = new ArrayBuffer[Handoff]
  @volatile private var failure: Throwable = _

  private final class LaneState(val index: Int) {
    val queue = new ArrayDeque[RowBlock[R]]
    val turn = lock.newCondition()
    val recalls = new ArrayBuffer[Handoff]
    var bytes = 0L
    var rowsQueued = 0L
    var rowsTaken = 0L
    var startedNs = 0L
    var idleNs = 0L
    var idleSinceNs = 0L
    var waiting = Waiting.No
    var hasTaken = false
    var ended = false
    @volatile var recalled = false

    def append(row: R, shard: Int): Unit = {
      val tail = queue.peekLast
      val block = if (tail == null || tail.isFull) { val b = newBlock(); queue.addLast(b); b }
      else tail
      val before = block.bytes
      block.append(row, shard)
      bytes += block.bytes - before
      buffered += block.bytes - before
      rowsQueued += 1
    }

    def addBlock(block: RowBlock[R]): Unit = {
      queue.addLast(block)
      bytes += block.bytes
      buffered += block.bytes
      rowsQueued += block.rows
    }

    def wake(): Unit = if (waiting != Waiting.No) turn.signal()

    /** After a row was appended: a lane that looks again by itself is left alone until it is worth its while. */
    def rowCame(): Unit =
      if (waiting == Waiting.ForSignal || (waiting == Waiting.Looking && rowsQueued >= Inlet.RowsWorthWaking))
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

  /** Sends a row to its shard's lane, or holds it if the shard is on its way. Waits while the buffers are full. */
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
    val room = hasRoom(shard)
    noteReceiver(waits = !room)
    if (room) {
      offered(shard) += 1
      val handoff = table.handoffOf(shard)
      if (handoff == null) {
        val lane = lanes(table.owner(shard))
        lane.append(row, shard)
        lane.rowCame()
      } else {
        val hold = holds(shard)
        val before = hold.bytes
        hold.append(row, shard)
        held += hold.bytes - before
        buffered += hold.bytes - before
        handoff.heldRows += 1
      }
    }
    room
  }

  private def hasRoom(shard: Int): Boolean =
    buffered < limits.totalBytes && (
      if (table.handoffOf(shard) == null) lanes(table.owner(shard)).bytes < limits.queueBytes
      else held < limits.holdBytes || Faults.isOn(Fault.HoldUnbounded)
    )

  /** A receiver that has to wait wakes the lanes that have rows but would look again by themselves. */
  private def noteReceiver(waits: Boolean): Unit = {
    receiverWaits = waits
    if (waits) lanes.foreach(l => if (l.rowsQueued > 0) l.wake())
  }

  private def wakeReceiver(): Unit = if (receiverWaits) receiverTurn.signal()

  /** What is offered from here on is of the next input: each lane meets the boundary behind its rows so far. Only for
    * partitions whose shards do not move within a batch.
    */
  def nextInput(): Unit = locked {
    checkRunning()
    require(table.inFlight == 0, "a shard moves between two inputs")
    lanes.take(startedLanes).foreach { lane =>
      if (!(Faults.isOn(Fault.BoundaryBehindRowsOnly) && lane.queue.isEmpty)) lane.addBlock(new Boundary[R])
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

  /** The handoffs away from this lane that wait for its acknowledgement. */
  def recalls(lane: LaneId): Seq[Handoff] = locked {
    val now = clock()
    val pending = lanes(lane.value).recalls.toList
    pending.foreach(h => if (h.noticedNs == 0L) h.noticedNs = now)
    pending
  }

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
      val block = state.queue.pollFirst()
      state.bytes -= block.bytes
      buffered -= block.bytes
      state.rowsQueued -= block.rows
      state.rowsTaken += block.rows
      state.hasTaken = true
      wakeReceiver()
      if (block.isInstanceOf[Boundary[_]]) Taken.NextInput else Taken.Rows(block)
    } else if (state.ended) Taken.End
    else null
  }

  /** The source lane gives the shard up: everything it has taken of it is processed, flushed, and its outputs are with the
    * emitter. `remainder` (or null) is what it had taken but not processed. Settles the handoff.
    */
  def acknowledge(handoff: Handoff, remainder: Hold[R]): Unit = locked {
    checkRunning()
    val from = lanes(handoff.from.value)
    from.recalls -= handoff
    from.recalled = from.recalls.nonEmpty && !Faults.isOn(Fault.RecallForgotten)
    if (remainder != null) {
      from.rowsTaken -= remainder.rows
      handoff.heldRows += remainder.rows
    }
    settle(handoff, remainder)
    val toRetired = table.owner(handoff.shard.value) >= activeLanes
    if (!closing && toRetired && !Faults.isOn(Fault.LeftOnRetired)) retire(handoff.shard.value)
  }

  /** Routes the shard to its new lane, with the rows that have waited: `remainder` (or null), then the hold. */
  private def settle(handoff: Handoff, remainder: Hold[R]): Unit = {
    val to = lanes(handoff.to.value)
    val released = new ArrayDeque[RowBlock[R]]
    if (remainder != null && !Faults.isOn(Fault.RemainderDropped)) remainder.drainTo(released)
    releaseHold(handoff.shard.value, released)
    released.forEach(b => to.addBlock(b))
    if (Faults.isOn(Fault.RoutingNotSwitched)) table.cancel(handoff) else table.settle(handoff)
    handoff.settledNs = clock()
    if (!Faults.isOn(Fault.LaneNotWoken)) to.wake()
    if (!Faults.isOn(Fault.ReceiverNotWoken)) wakeReceiver()
    settled += handoff
  }

  private def releaseHold(shard: Int, released: ArrayDeque[RowBlock[R]]): Unit = {
    val hold = holds(shard)
    held -= hold.bytes
    buffered -= hold.bytes
    if (Faults.isOn(Fault.HoldReversed)) {
      val reversed = new ArrayDeque[RowBlock[R]]
      hold.drainTo(reversed)
      reversed.descendingIterator().forEachRemaining(b => released.addLast(b))
    } else hold.drainTo(released)
    holds(shard) = null
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
    val hold = new Hold[R](newBlock)
    // Rows still in the queue wait with the new ones: the pause does not depend on the backlog.
    if (!Faults.isOn(Fault.QueueNotRecalled)) from.queue.forEach { block =>
      val before = block.bytes
      val rows = block.extract(shard, 0, hold)
      from.bytes -= before - block.bytes
      buffered -= before - block.bytes
      from.rowsQueued -= rows
    }
    held += hold.bytes
    buffered += hold.bytes
    handoff.heldRows = hold.rows
    holds(shard) = hold
    handoff.heldNs = clock()
    if (from.hasTaken && !Faults.isOn(Fault.SettledUnderTheLane)) {
      from.recalls += handoff
      from.recalled = true
      from.wake()
      // Its row may have room now: in the queue that the shard has left, or in the hold.
      wakeReceiver()
      if (Faults.isOn(Fault.HoldReleasedEarly)) releaseEarly(handoff)
    } else {
      // The lane has seen no row of this batch yet: it has nothing to finish, nor needs it be up.
      handoff.noticedNs = handoff.heldNs
      handoff.flushedNs = handoff.heldNs
      settle(handoff, null)
    }
    handoff
  }

  /** Planted bug: the destination gets the rows before the source lane has let the shard go. */
  private def releaseEarly(handoff: Handoff): Unit = {
    val released = new ArrayDeque[RowBlock[R]]
    releaseHold(handoff.shard.value, released)
    holds(handoff.shard.value) = new Hold[R](newBlock)
    released.forEach(b => lanes(handoff.to.value).addBlock(b))
    lanes(handoff.to.value).wake()
  }

  /** Takes a handoff back that its source lane has not acknowledged; false if it is too late. */
  def cancel(handoff: Handoff): Boolean = locked {
    val shard = handoff.shard.value
    val from = lanes(handoff.from.value)
    val noticed = handoff.noticedNs != 0L && !Faults.isOn(Fault.CancelledTooLate)
    if (failure != null || (table.handoffOf(shard) ne handoff) || noticed) false
    else {
      val released = new ArrayDeque[RowBlock[R]]
      releaseHold(shard, released)
      if (!Faults.isOn(Fault.CancelDropsHold)) released.forEach(b => from.addBlock(b))
      from.recalls -= handoff
      from.recalled = from.recalls.nonEmpty
      table.cancel(handoff)
      from.wake()
      wakeReceiver()
      if (!closing && handoff.from.value >= activeLanes) retire(shard)
      true
    }
  }

  /** Changes the number of lanes that own shards. New lanes start empty: a planner fills them. Lanes beyond `count` hand
    * their shards to the others and then sit idle until they are wanted again or the batch ends.
    */
  def setLanes(count: Int): Either[String, Unit] = {
    require(count >= 1 && count <= limits.maxLanes, s"lanes must be 1..${limits.maxLanes}, not $count")
    locked {
      if (failure != null || closing) Left("the batch is ending")
      else {
        val fresh = startedLanes until count
        // Threads start under the lock: an end of the batch in between would miss them.
        fresh.foreach { i =>
          startedLanes = i + 1
          startLane(LaneId(i))
        }
        activeLanes = count
        (0 until table.shards).foreach { s =>
          if (table.owner(s) >= count && table.handoffOf(s) == null) retire(s)
        }
        Right(())
      }
    }
  }

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

  /** Bytes of rows in all queues and holds. */
  def bufferedBytes: Long = locked(buffered)

  /** The table, the blocks of a lane's queue and the hold of a shard (null without a handoff), as they are: for tests. */
  private[lane] def routingTable: RoutingTable = table
  private[lane] def queued(lane: Int): java.lang.Iterable[RowBlock[R]] = lanes(lane).queue
  private[lane] def heldOf(shard: Int): Hold[R] = holds(shard)

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
      lanes.take(startedLanes).map(_.rowsQueued),
      lanes.take(startedLanes).map(_.bytes),
      lanes.take(startedLanes).map(_.busyUntil(now)),
      blockedNs + (if (blockedSinceNs == 0L) 0L else now - blockedSinceNs),
      held
    )
  }
}

object Inlet {

  /** What a lane without rows does. */
  private object Waiting extends Enumeration {
    val No, Looking, ForSignal = Value
  }

  /** How often an idle lane looks again by itself before it waits for a signal, and how long it waits in between. */
  private val LooksBeforeWaiting = 40
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
    blockedNs: Long,
    heldBytes: Long
)
