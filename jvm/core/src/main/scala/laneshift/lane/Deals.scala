package laneshift.lane

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.{Condition, Lock, ReentrantLock}

import scala.collection.mutable

import laneshift.ids.LaneId
import laneshift.testing.{Fault, Faults}

/** Bounds of a dealt partition.
  *
  * @param rowBytes bytes of rows, for each lane that it has, that came in and whose outputs have not all gone out
  * @param outputBytes bytes of outputs that wait for others before them; one block more for each lane at most
  * @param lingerNs how long a lane that waits for rows keeps rows in it that it has not answered for
  */
final case class DealLimits(maxLanes: Int, rowBytes: Long, outputBytes: Long, lingerNs: Long)

/** What a lane gets when it asks for rows. */
sealed trait Dealt[+R]

object Dealt {

  /** Deal `number`: rows that follow each other. */
  final case class Rows[R](number: Long, block: RowBlock[R]) extends Dealt[R]

  /** The lane has to put out what it holds before it gets more. */
  case object Flush extends Dealt[Nothing]

  case object End extends Dealt[Nothing]
}

/** The way of rows through the lanes of one partition whose operators go row by row and have no state: rows in a row are one
  * deal, any lane may take any deal, and outputs come out in the order of the deals (docs/handoff.md, section 12, is its
  * contract). `R` is a row, `B` a block of outputs.
  *
  * Who may call what: one receiver thread `offer` and `finish`; lane i's thread the methods with its number; one emitter
  * thread `emit`; any thread the rest. Each method that waits is a loop of attempts, which change everything or nothing, and of
  * waits for a signal.
  */
final class Deals[R, B](
    limits: DealLimits,
    initialLanes: Int,
    newBlock: () => RowBlock[R],
    bytesOf: B => Long,
    startLane: LaneId => Unit,
    clock: () => Long = () => System.nanoTime(),
    lock: Lock = new ReentrantLock
) extends LaneFeed {
  require(initialLanes >= 1 && initialLanes <= limits.maxLanes, s"$initialLanes lanes of ${limits.maxLanes}")

  private val receiverTurn = lock.newCondition()
  private val emitterTurn = lock.newCondition()
  private val roomForOutputs = lock.newCondition()
  private val lanes = Array.fill(limits.maxLanes)(new LaneState(lock.newCondition()))

  /** Rows that are not dealt yet. */
  private var filling = newBlock()
  private var nextNumber = 0L

  /** All deals that have not gone out, in order: their numbers have no gaps. Those from `nextToTake` on wait for a lane. */
  private val open = mutable.ArrayDeque.empty[Deal]
  private var nextToTake = 0L

  private var activeLanes = initialLanes
  private var startedLanes = initialLanes
  private var runningLanes = initialLanes
  private var rowBytes = 0L
  private var outputBytes = 0L
  private var offered = 0L
  private var ended = false
  private var receiverWaits = false
  private var blockedNs = 0L
  private var blockedSinceNs = 0L
  private var nsPerRow = 0.0
  @volatile private var failure: Throwable = _

  private final class Deal(val number: Long, var block: RowBlock[R]) {
    val rows: Int = block.rows
    val bytes: Long = block.bytes
    val outputs = new java.util.ArrayDeque[B]
    var outputBytes = 0L
    var takenNs = 0L
    var isDone = false
  }

  private final class LaneState(val turn: Condition) {

    /** What it has taken and not answered for, in order. */
    val held = mutable.ArrayDeque.empty[Deal]
    var waits = false
    var looks = false
    var rows = 0L
    var startedNs = 0L
    var idleNs = 0L
    var idleSinceNs = 0L
    var busyAtDoneNs = 0L

    def busyUntil(nowNs: Long): Long =
      if (startedNs == 0L) 0L
      else (if (idleSinceNs == 0L) nowNs else idleSinceNs) - startedNs - idleNs
  }

  private def locked[T](body: => T): T = {
    lock.lock()
    try body
    finally lock.unlock()
  }

  private def checkRunning(): Unit = if (failure != null) throw new PartitionStopped(failure)

  // ---- receiver

  /** Takes a row in. Waits while the buffers are full. */
  def offer(row: R): Unit = locked {
    if (!tryOffer(row)) {
      blockedSinceNs = clock()
      try
        do receiverTurn.await()
        while (!tryOffer(row))
      finally {
        blockedNs += clock() - blockedSinceNs
        blockedSinceNs = 0L
      }
    }
  }

  /** One attempt, under the lock; false if the receiver has to wait for a signal. */
  private[lane] def tryOffer(row: R): Boolean = {
    checkRunning()
    val room = rowBytes < limits.rowBytes * activeLanes
    receiverWaits = !room
    if (room) {
      offered += 1
      rowBytes -= filling.bytes
      filling.append(row, 0)
      rowBytes += filling.bytes
      if (filling.isFull || filling.rows >= rowsPerDeal) cut()
      wakeForRows()
    } else if (!Faults.isOn(Fault.FlushForgotten)) lanes.foreach(l => if (l.waits) l.turn.signal())
    room
  }

  /** As many as are worth a lane's while, so that lanes end together, and answers come soon. */
  private def rowsPerDeal: Int =
    if (nsPerRow == 0.0) Deals.FirstRows else math.max(1.0, math.min(1e6, Deals.WorthNs / nsPerRow)).toInt

  private def cut(): Unit = {
    open.append(new Deal(nextNumber, filling))
    nextNumber += 1
    filling = newBlock()
  }

  /** A lane that looks again by itself is left alone until it is worth its while. */
  private def wakeForRows(): Unit = {
    var i = 0
    var woken = false
    while (i < activeLanes && !woken) {
      val lane = lanes(i)
      if (lane.waits && (!lane.looks || queued > 0 || filling.rows >= Deals.RowsWorthWaking)) {
        lane.turn.signal()
        lane.waits = false
        woken = true
      }
      i += 1
    }
  }

  /** Deals that nobody has taken. */
  private def queued: Long = nextNumber - nextToTake

  /** Ends the input. */
  def finish(): Unit = locked {
    checkRunning()
    ended = true
    lanes.foreach(_.turn.signal())
    emitterTurn.signal()
  }

  // ---- lanes

  /** The next deal of a lane, or what else it has to do; waits for one of them.
    *
    * @param answered all that it has taken before is done, and put out
    */
  def take(lane: LaneId, answered: Boolean): Dealt[R] = locked {
    val state = lanes(lane.value)
    if (state.startedNs == 0L) state.startedNs = clock()
    if (answered) doneBefore(state, Long.MaxValue)
    var looks = Deals.LooksBeforeWaiting
    var taken = tryTake(lane, looks > 0)
    while (taken == null) {
      if (looks > 0) {
        looks -= 1
        state.turn.awaitNanos(Deals.LookNs)
      } else if (mayLinger(state)) state.turn.awaitNanos(math.max(1L, lingers(state)))
      else state.turn.await()
      taken = tryTake(lane, looks > 0)
    }
    taken
  }

  /** One attempt, under the lock; null if the lane has to wait, for a signal or, if it `looksAgain`, for a short time. */
  private[lane] def tryTake(lane: LaneId, looksAgain: Boolean): Dealt[R] = {
    checkRunning()
    val state = lanes(lane.value)
    val taken = next(lane.value, state)
    state.waits = taken == null
    state.looks = looksAgain
    if (taken == null) {
      if (state.idleSinceNs == 0L) state.idleSinceNs = clock()
    } else if (state.idleSinceNs != 0L) {
      state.idleNs += clock() - state.idleSinceNs
      state.idleSinceNs = 0L
    }
    taken
  }

  private def next(index: Int, state: LaneState): Dealt[R] =
    if (index >= activeLanes && !ended) {
      if (state.held.isEmpty || Faults.isOn(Fault.RetiredHolds)) null else Dealt.Flush
    } else if (queued > 0 || filling.rows > 0) {
      if (queued == 0) cut()
      val deal = open((nextToTake - open.head.number).toInt)
      nextToTake += 1
      if (state.held.isEmpty) deal.takenNs = clock()
      state.held.append(deal)
      state.rows += deal.rows
      val block = deal.block
      deal.block = null
      Dealt.Rows(deal.number, block)
    } else if (ended) Dealt.End
    else if (state.held.nonEmpty && (receiverWaits || (mayLinger(state) && lingers(state) <= 0L))) {
      if (Faults.isOn(Fault.FlushForgotten)) null else Dealt.Flush
    } else null

  private def mayLinger(state: LaneState): Boolean = limits.lingerNs != Deals.Forever && state.held.nonEmpty

  /** How long the lane may still keep what it holds. */
  private def lingers(state: LaneState): Long = state.held.head.takenNs + limits.lingerNs - clock()

  /** Outputs of a deal that the lane has taken; those of earlier deals of it are all there. Returns how long it had to wait for
    * room, in nanoseconds.
    */
  def put(lane: LaneId, number: Long, outputs: B): Long = locked {
    if (tryPut(lane, number, outputs)) 0L
    else {
      val since = clock()
      do roomForOutputs.await()
      while (!tryPut(lane, number, outputs))
      val waited = clock() - since
      lanes(lane.value).idleNs += waited
      waited
    }
  }

  /** One attempt, under the lock; false if the lane has to wait for a signal. */
  private[lane] def tryPut(lane: LaneId, number: Long, outputs: B): Boolean = {
    checkRunning()
    doneBefore(lanes(lane.value), if (Faults.isOn(Fault.AnsweredEarly)) number + 1 else number)
    val deal = open((number - open.head.number).toInt)
    val size = bytesOf(outputs)
    // What comes next never waits for what comes later.
    val room =
      if ((deal eq open.head) && !Faults.isOn(Fault.NextDealWaits)) deal.outputBytes < Deals.NextBytes
      else outputBytes < limits.outputBytes
    if (room) {
      deal.outputs.addLast(outputs)
      deal.outputBytes += size
      outputBytes += size
      if (deal eq open.head) emitterTurn.signal()
    }
    room
  }

  /** The lane has put out all that follows from the deals that it has taken. */
  def answered(lane: LaneId): Unit = locked(doneBefore(lanes(lane.value), Long.MaxValue))

  private def doneBefore(lane: LaneState, number: Long): Unit = if (lane.held.nonEmpty) {
    var rows = 0
    while (lane.held.nonEmpty && lane.held.head.number < number) {
      val deal = lane.held.removeHead()
      deal.isDone = true
      rowBytes -= deal.bytes
      rows += deal.rows
    }
    if (rows > 0) {
      val now = clock()
      if (lane.held.nonEmpty) lane.held.head.takenNs = now
      learn(lane, rows, now)
      if (receiverWaits) receiverTurn.signal()
      if (open.head.isDone) emitterTurn.signal()
    }
  }

  private def learn(lane: LaneState, rows: Int, nowNs: Long): Unit = {
    val busy = lane.busyUntil(nowNs)
    val perRow = (busy - lane.busyAtDoneNs).toDouble / rows
    lane.busyAtDoneNs = busy
    nsPerRow = if (nsPerRow == 0.0) perRow else nsPerRow + Deals.Learning * (perRow - nsPerRow)
  }

  /** The lane's thread has ended. */
  def left(lane: LaneId): Unit = locked {
    if (lanes(lane.value).idleSinceNs == 0L) lanes(lane.value).idleSinceNs = clock()
    runningLanes -= 1
    emitterTurn.signal()
  }

  // ---- emitter

  /** The next outputs, or None once every lane has ended. Throws the cause of a failure as it is. Calls `whileIdle` every
    * `pollMs` milliseconds of waiting; what that throws ends the wait.
    */
  def emit(pollMs: Long, whileIdle: () => Unit): Option[B] = locked {
    var next = tryEmit()
    while (next == null) {
      if (!emitterTurn.await(pollMs, TimeUnit.MILLISECONDS)) whileIdle()
      next = tryEmit()
    }
    next
  }

  /** One attempt, under the lock; null if the emitter has to wait for a signal. */
  private[lane] def tryEmit(): Option[B] = {
    if (failure != null) throw failure
    while (open.nonEmpty && open.head.isDone && open.head.outputs.isEmpty) {
      open.removeHead()
      // Whoever has outputs of the deal that is next now may wait for room.
      if (open.nonEmpty && !Faults.isOn(Fault.NextDealNotWoken)) roomForOutputs.signalAll()
    }
    val from =
      if (Faults.isOn(Fault.DealsOutOfOrder)) open.find(!_.outputs.isEmpty)
      else open.headOption.filter(!_.outputs.isEmpty)
    from match {
      case Some(deal) =>
        val block = deal.outputs.pollFirst()
        deal.outputBytes -= bytesOf(block)
        outputBytes -= bytesOf(block)
        roomForOutputs.signalAll()
        Some(block)
      case None => if (ended && open.isEmpty && runningLanes == 0) None else null
    }
  }

  // ---- control

  override def setLanes(count: Int): Either[String, Int] = {
    require(count >= 1 && count <= limits.maxLanes, s"lanes must be 1..${limits.maxLanes}, not $count")
    locked {
      if (failure != null || ended) Left("the batch is ending")
      else {
        // Threads start under the lock: an end of the batch in between would miss them.
        while (startedLanes < count && started(LaneId(startedLanes))) ()
        activeLanes = math.min(count, startedLanes)
        lanes.foreach(_.turn.signal())
        if (receiverWaits) receiverTurn.signal()
        Right(activeLanes)
      }
    }
  }

  private def started(lane: LaneId): Boolean =
    try {
      startLane(lane)
      startedLanes += 1
      runningLanes += 1
      true
    } catch { case _: LaneNotStarted => false }

  /** Stops everybody: each waiting or later call throws. The first cause counts. */
  def fail(cause: Throwable): Unit = locked {
    if (failure == null) failure = cause
    receiverTurn.signalAll()
    emitterTurn.signalAll()
    roomForOutputs.signalAll()
    lanes.foreach(_.turn.signalAll())
  }

  /** Bytes of rows that came in and whose outputs have not all gone out, and of outputs that wait. */
  def bufferedBytes: Long = locked(rowBytes + outputBytes)

  /** As of an inlet with one shard; rows that wait for a lane are shown with the first one. */
  override def stats: InletStats = locked {
    val now = clock()
    val shown = lanes.take(startedLanes)
    val waiting = open.iterator.drop(if (open.isEmpty) 0 else (nextToTake - open.head.number).toInt).toSeq
    InletStats(
      Array(0),
      Array(0),
      Array.range(0, activeLanes),
      startedLanes,
      inFlight = 0,
      Array(offered),
      shown.map(_.rows),
      Deals.first(waiting.map(_.rows.toLong).sum + filling.rows, shown.length),
      Deals.first(waiting.map(_.bytes).sum + filling.bytes, shown.length),
      shown.map(_.busyUntil(now)),
      blockedNs + (if (blockedSinceNs == 0L) 0L else now - blockedSinceNs)
    )
  }
}

object Deals {

  /** For [[DealLimits.lingerNs]]: lanes need not put out before they are asked to. */
  val Forever: Long = Long.MaxValue

  /** A deal has about so much work in it, and so many rows before anything is known of them. */
  private val WorthNs = 4e6
  private val FirstRows = 16

  /** The weight of a deal in what is known of a row's cost. */
  private val Learning = 0.2

  /** Outputs of the next deal that may wait for the emitter. */
  private val NextBytes = 64L * 1024

  /** As in [[Inlet]]: how often an idle lane looks again by itself, how long it waits in between, and what wakes it. */
  private val LooksBeforeWaiting = 4
  private val LookNs = TimeUnit.MICROSECONDS.toNanos(500)
  private val RowsWorthWaking = 32

  private def first(value: Long, length: Int): Array[Long] = {
    val all = new Array[Long](length)
    all(0) = value
    all
  }
}
