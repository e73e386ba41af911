package laneshift.lane

import java.util.concurrent.locks.{Condition, Lock, ReentrantLock}

import laneshift.ids.LaneId

/** Bounds of a dealt partition.
  *
  * @param rowBytes bytes of rows, for each lane that it has, that came in and that no lane has answered for; where lanes read ahead, that
  *   no lane has taken: their operators have a bound in time, and keep rows as Spark does
  * @param outputBytes bytes of outputs that wait for others before them; one block more for each lane at most
  * @param queueTime of each lane's work in the rows that no lane has taken, by what is known of a row's cost
  */
final case class DealLimits(
    maxLanes: Int,
    rowBytes: Long,
    outputBytes: Long,
    queueTime: Option[QueueTime] = None
)

/** How lanes work on a deal.
  *
  * @param readsAhead their operators read rows ahead: that a lane asks for more says nothing of those that it has, and only the end
  *   of its input makes it put out everything
  * @param worthNs a deal has about so much work in it: so that what it costs to hand it over, or to end the input, is little
  *   against it
  * @param lingerNs how long a deal may wait for rows before it is closed, where lanes read ahead
  * @param learning the weight of a deal in what is known of a row's cost
  */
final case class DealWork(
    readsAhead: Boolean,
    worthNs: Long,
    firstRows: Int,
    lingerNs: Long,
    learning: Double = 0.2
)

object DealWork {

  /** A deal is not closed before somebody has to wait for it. */
  val Forever: Long = Long.MaxValue
  val RowByRow: DealWork = DealWork(readsAhead = false, 4000000L, 16, Forever)

  /** A restart of Python functions takes 20 to 60 ms, most of which Spark and its worker wait for each other. */
  def ahead(lingerNs: Long): DealWork =
    DealWork(readsAhead = true, 1000000000L, 100, lingerNs, learning = 0.5)
}

/** What earlier batches have told of the next one's deals.
  *
  * @param rows how many there may be
  */
final case class DealsBefore(rows: Long, cost: DealCost)

/** What a lane gets when it asks for rows. */
sealed trait Dealt[+R]

object Dealt {

  /** Rows of its deal: that is a new one, unless lanes read ahead and it has one. */
  final case class Rows[R](block: RowBlock[R]) extends Dealt[R]

  /** Its deal has all its rows: the lane has to put out what follows from them, and to say so. */
  case object Flush extends Dealt[Nothing]

  case object End extends Dealt[Nothing]
}

/** The way of rows through the lanes of one partition whose operators go row by row and have no state: rows that follow each other
  * are one deal, any lane may have any deal, and outputs come out in the order of the deals (docs/handoff.md, section 12, is
  * its contract).
  *
  * Who may call what: one receiver thread `offer` and `finish`; lane i's threads the methods with its number; one emitter
  * thread `emit`; any thread the rest.
  */
final class Deals[R](
    limits: DealLimits,
    work: DealWork,
    initialLanes: Int,
    newBlock: () => RowBlock[R],
    startLane: LaneId => Unit,
    clock: () => Long = () => System.nanoTime(),
    lock: Lock = new ReentrantLock,
    before: Option[DealsBefore] = None
) extends LaneFeed(limits.maxLanes, initialLanes, startLane, clock, lock) {
  private val emitterTurn = newTurn()
  private val roomForOutputs = newTurn()
  private val lanes = Array.fill(limits.maxLanes)(new LaneState(newTurn()))

  /** Rows that nobody has taken, in order. */
  private val queue = new RowQueue[R](newBlock)

  /** Deals that lanes have and whose outputs have not all gone out, in order. */
  private val open = new java.util.ArrayDeque[Deal]

  /** The lane whose deal gets the next rows, where lanes read ahead: rows of a deal follow each other. */
  private var puller = Deals.Nobody

  /** Lanes whose threads have ended. */
  private var lanesLeft = 0

  /** Of rows that lanes have and have not answered for. */
  private var dealtBytes = 0L
  private var dealtRows = 0L
  private var outputBytes = 0L
  private var offered = 0L
  private var ended = false
  private var cost = before.fold(DealCost.unknown(work))(_.cost)

  private final class Deal(val begunNs: Long, val origin: AnyRef) {
    var rows = 0
    var rowBytes = 0L
    val outputs = new RowQueue[R](newBlock)
    var isDone = false
  }

  private final class LaneState(val turn: Condition) extends LaneClock(clock) {

    /** What it has not answered for, or null. */
    var deal: Deal = _
    var waits = false
    var looks = false
    var busyAtDoneNs = 0L

    /** With its first deal it has to start, too. */
    def isAtFirst: Boolean = deal != null && rows == deal.rows
  }

  // ---- receiver

  /** Takes a row in. Waits while the buffers are full. A deal has rows of one `origin`, by identity, which its outputs get, too. */
  def offer(row: R, origin: AnyRef): Unit = offering(tryOffer(row, origin))

  /** One attempt, under the lock; false if the receiver has to wait for a signal. */
  private[lane] def tryOffer(row: R, origin: AnyRef): Boolean = {
    checkRunning()
    receiverWaits = !hasRoom
    val room = !receiverWaits
    if (room) {
      offered += 1
      queue.append(row, 0, rowsPerBlock, origin)
      wakeForRows()
    } else wakeWaiting()
    room
  }

  private def hasRoom: Boolean =
    queue.bytes + (if (work.readsAhead) 0L else dealtBytes) < limits.rowBytes * activeLanes &&
      (limits.queueTime.isEmpty || queue.rows < rowsIn(limits.queueTime.get) * activeLanes)

  /** Rows that one lane works on in so much time; few, until their cost is known. */
  private def rowsIn(time: QueueTime): Long =
    if (cost.nsPerRow == 0.0) time.leastRows else math.max(time.leastRows, (time.ns / cost.nsPerRow).toLong)

  private def rowsPerBlock: Long =
    if (work.readsAhead) math.max(1L, cost.rowsPerDeal / Deals.Blocks) else cost.rowsPerDeal

  /** A lane that looks again by itself is left alone until it is worth its while. */
  private def wakeForRows(): Unit = {
    var i = 0
    var woken = false
    while (i < activeLanes && !woken) {
      val lane = lanes(i)
      if (lane.waits && mayPull(i) && (!lane.looks || queue.rows >= LaneFeed.RowsWorthWaking)) {
        lane.turn.signal()
        lane.waits = false
        woken = true
      }
      i += 1
    }
  }

  private def wakeWaiting(): Unit = lanes.foreach(lane => if (lane.waits) lane.turn.signal())

  /** Rows that come are not somebody else's. */
  private def mayPull(lane: Int): Boolean =
    !work.readsAhead || puller == lane || puller == Deals.Nobody

  /** Ends the input. */
  def finish(): Unit = locked {
    checkRunning()
    ended = true
    lanes.foreach(_.turn.signal())
    emitterTurn.signal()
  }

  // ---- lanes

  /** What a lane has to do next; waits for it. Where lanes do not read ahead, one that asks has put out all that follows from the
    * rows that it has.
    */
  def take(lane: LaneId): Dealt[R] = locked {
    val state = lanes(lane.value)
    state.begin()
    looking(state.turn, looks = true)(
      if (mayLinger(state)) state.turn.awaitNanos(math.max(1L, lingers(state))) else state.turn.await()
    )(tryTake(lane, _))
  }

  /** One attempt, under the lock; null if the lane has to wait, for a signal or, if it `looksAgain`, for a short time. */
  private[lane] def tryTake(lane: LaneId, looksAgain: Boolean): Dealt[R] = {
    checkRunning()
    val state = lanes(lane.value)
    if (!work.readsAhead) done(state)
    val taken = next(lane.value, state)
    state.waits = taken == null
    state.looks = looksAgain
    if (taken == null) state.rests() else state.works()
    taken
  }

  private def next(index: Int, state: LaneState): Dealt[R] = {
    val rests = index >= activeLanes && !ended
    if (state.deal != null && (rests || isClosed(state))) close(index)
    else if (rests || !mayPull(index)) { if (ended && queue.isEmpty) Dealt.End else null }
    else if (!queue.isEmpty) deal(index, state)
    else if (ended) Dealt.End
    else null
  }

  /** The lane's deal gets no more rows. */
  private def isClosed(state: LaneState): Boolean = state.deal.rows >= rowsOfDeal ||
    (!queue.isEmpty && (queue.firstOrigin ne state.deal.origin)) ||
    (queue.isEmpty && !ended && mayLinger(state) && lingers(state) <= 0L)

  /** How many rows a deal gets: as many as are worth a lane's while. If it is known how many are left, about as many, so that all lanes
    * get the same part in as few deals: lanes that are done a little early lose less than a deal more would cost.
    */
  private def rowsOfDeal: Long = {
    val most = cost.rowsPerDeal
    val mayCome = if (ended) 0L else before.fold(0L)(_.rows) - offered
    if (!ended && mayCome <= 0L) most
    else {
      val part = (mayCome + queue.rows + dealtRows).toDouble / activeLanes
      val turns = math.max(1L, math.round(part / most))
      math.max(math.max(1L, most / Deals.Smaller), math.ceil(part / turns).toLong)
    }
  }

  private def close(index: Int): Dealt[R] = {
    puller = Deals.Nobody
    wakeWaiting()
    Dealt.Flush
  }

  private def deal(index: Int, state: LaneState): Dealt[R] = {
    if (state.deal == null) {
      state.deal = new Deal(clock(), queue.firstOrigin)
      open.addLast(state.deal)
      if (work.readsAhead) puller = index
    }
    val block = queue.poll()
    state.deal.rows += block.rows
    state.deal.rowBytes += block.bytes
    dealtBytes += block.bytes
    dealtRows += block.rows
    state.rows += block.rows
    wakeReceiver()
    Dealt.Rows(block)
  }

  private def mayLinger(state: LaneState): Boolean = work.lingerNs != DealWork.Forever && state.deal != null

  /** How long the lane's deal may still wait for rows. */
  private def lingers(state: LaneState): Long = state.deal.begunNs + work.lingerNs - clock()

  /** Outputs of the lane's deal. Waits while there is no room for them, which is no work. */
  def put(lane: LaneId, outputs: RowBlock[R]): Unit = locked {
    if (!tryPut(lane, outputs)) {
      val since = clock()
      do roomForOutputs.await()
      while (!tryPut(lane, outputs))
      lanes(lane.value).waited(clock() - since)
    }
  }

  /** One attempt, under the lock; false if the lane has to wait for a signal. */
  private[lane] def tryPut(lane: LaneId, outputs: RowBlock[R]): Boolean = {
    checkRunning()
    val state = lanes(lane.value)
    val deal = state.deal
    if (deal == null) throw new IllegalStateException(s"lane ${lane.value} puts out what follows from no row")
    val isNext = deal eq open.peekFirst()
    // What comes next never waits for what comes later.
    val room =
      if (isNext) deal.outputs.bytes < Deals.NextBytes
      else outputBytes < limits.outputBytes
    if (room) {
      deal.outputs.add(outputs)
      outputBytes += outputs.bytes
      if (isNext) emitterTurn.signal()
    }
    room
  }

  /** The lane has put out all that follows from the rows that it has. */
  def answered(lane: LaneId): Unit = locked(done(lanes(lane.value)))

  private def done(lane: LaneState): Unit = if (lane.deal != null) {
    val deal = lane.deal
    if (lane.isAtFirst) lane.busyAtDoneNs = lane.busyUntil(clock()) else learn(lane, deal.rows)
    lane.deal = null
    deal.isDone = true
    dealtBytes -= deal.rowBytes
    dealtRows -= deal.rows
    if (puller != Deals.Nobody && (lanes(puller) eq lane)) {
      puller = Deals.Nobody
      wakeWaiting()
    }
    wakeReceiver()
    if (open.peekFirst().isDone) emitterTurn.signal()
  }

  private def learn(lane: LaneState, rows: Int): Unit = {
    val busy = lane.busyUntil(clock())
    cost = cost.and(work, rows, busy - lane.busyAtDoneNs)
    lane.busyAtDoneNs = busy
  }

  /** The lane's thread has ended. */
  def left(lane: LaneId): Unit = locked {
    lanes(lane.value).rests()
    lanesLeft += 1
    emitterTurn.signal()
  }

  // ---- emitter

  /** The next outputs, or None once every lane has ended. Throws the cause of a failure as it is. Calls `whileIdle` every
    * `pollMs` milliseconds of waiting; what that throws ends the wait.
    */
  def emit(pollMs: Long, whileIdle: () => Unit): Option[RowBlock[R]] =
    locked(polling(emitterTurn, pollMs, whileIdle)(tryEmit()))

  /** One attempt, under the lock; null if the emitter has to wait for a signal. */
  private[lane] def tryEmit(): Option[RowBlock[R]] = {
    if (failure != null) throw failure
    while (!open.isEmpty && open.peekFirst().isDone && open.peekFirst().outputs.isEmpty) {
      open.removeFirst()
      // Whoever has outputs of the deal that is next now may wait for room.
      roomForOutputs.signalAll()
    }
    val deal = open.peekFirst()
    if (deal != null && !deal.outputs.isEmpty) {
      val block = deal.outputs.poll()
      block.origin = deal.origin
      outputBytes -= block.bytes
      roomForOutputs.signalAll()
      Some(block)
    } else if (ended && deal == null && lanesLeft == startedLanes) None
    else null
  }

  // ---- control

  override protected def isEnding: Boolean = ended

  override def areStarting: Boolean = locked(lanes.exists(_.isAtFirst))

  override protected def lanesChanged(): Unit = {
    lanes.foreach(_.turn.signal())
    wakeReceiver()
  }

  /** What they tell of the next batch's. */
  def told: Option[DealsBefore] = locked(if (offered == 0L) before else Some(DealsBefore(offered, cost)))

  /** Bytes of rows that came in and that nobody has answered for, and of outputs that wait. */
  def bufferedBytes: Long = locked(queue.bytes + dealtBytes + outputBytes)

  /** As of an inlet with one shard; rows that wait for a lane are shown with the first one. */
  override def stats: InletStats = locked {
    val now = clock()
    val shown = lanes.take(startedLanes)
    InletStats(
      Array(0),
      Array(0),
      Array.range(0, activeLanes),
      startedLanes,
      inFlight = 0,
      Array(offered),
      shown.map(_.rows),
      Deals.first(queue.rows, shown.length),
      Deals.first(queue.bytes, shown.length),
      shown.map(_.busyUntil(now)),
      blockedUntil(now)
    )
  }
}

object Deals {
  private val Nobody = -1

  /** So many blocks are a deal, where lanes read ahead, or a little more. */
  private val Blocks = 16

  /** No deal is smaller than this part of what is worth a lane's while. */
  private val Smaller = 8

  /** Outputs of the next deal that may wait for the emitter. */
  private val NextBytes = 64L * 1024

  private def first(value: Long, length: Int): Array[Long] = {
    val all = new Array[Long](length)
    all(0) = value
    all
  }
}
