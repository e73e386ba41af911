package laneshift.lane

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.{Condition, Lock}

import laneshift.ids.LaneId

/** What gives the lanes of one partition task their rows: an [[Inlet]], where shards are owned, or [[Deals]], where any lane may
  * have any row. Here is what is the same for both: the number of lanes, and the waits of the receiver and of idle lanes. Any
  * thread may call the public methods.
  */
abstract class LaneFeed private[lane] (
    maxLanes: Int,
    initialLanes: Int,
    startLane: LaneId => Unit,
    clock: () => Long,
    lock: Lock
) extends Monitor(lock) {
  require(initialLanes >= 1 && initialLanes <= maxLanes, s"$initialLanes lanes of $maxLanes")

  protected val receiverTurn: Condition = newTurn()
  protected var activeLanes: Int = initialLanes
  protected var startedLanes: Int = initialLanes
  protected var receiverWaits = false
  private var blockedNs = 0L
  private var blockedSinceNs = 0L

  /** Under the lock: no lane comes or goes any more. */
  protected def isEnding: Boolean

  /** Whether no more rows come in, and so no lane comes or goes any more. */
  final def hasAllRows: Boolean = locked(isEnding)

  /** Whether a lane has its first rows and has not answered: that it starts, with processes and all that they load, may take longer than
    * to work on them.
    */
  def areStarting: Boolean = false

  /** Under the lock: there are other lanes than before. */
  protected def lanesChanged(): Unit

  def stats: InletStats

  /** Changes the number of lanes that get rows, and says how many there are now: fewer if some cannot start; `Left` says why it
    * cannot be. Lanes beyond `count` sit idle until they are wanted again or the batch ends.
    */
  def setLanes(count: Int): Either[String, Int] = {
    require(count >= 1 && count <= maxLanes, s"lanes must be 1..$maxLanes, not $count")
    locked {
      if (failure != null || isEnding) Left("the batch is ending")
      else {
        // Threads start under the lock: an end of the batch in between would miss them.
        while (startedLanes < count && started(LaneId(startedLanes))) ()
        activeLanes = math.min(count, startedLanes)
        lanesChanged()
        Right(activeLanes)
      }
    }
  }

  /** Starts a lane, which is counted from then on: one that cannot start would be waited for. */
  private def started(lane: LaneId): Boolean =
    try {
      startLane(lane)
      startedLanes += 1
      true
    } catch { case _: LaneNotStarted => false }

  /** For the receiver: waits until an attempt succeeds. */
  protected def offering(attempt: => Boolean): Unit = locked {
    if (!attempt) {
      blockedSinceNs = clock()
      try
        do receiverTurn.await()
        while (!attempt)
      finally {
        blockedNs += clock() - blockedSinceNs
        blockedSinceNs = 0L
      }
    }
  }

  private[lane] def wakeReceiver(): Unit = if (receiverWaits) receiverTurn.signal()

  /** How long the receiver has waited for room. */
  protected def blockedUntil(nowNs: Long): Long =
    blockedNs + (if (blockedSinceNs == 0L) 0L else nowNs - blockedSinceNs)

  /** For a lane: what the first attempt gives that is not null. An attempt is told whether the lane looks again by itself if it
    * gives nothing: so it does for a short time, if it is one that `looks`, and then it `sleeps`, until there is a signal.
    */
  private[lane] def looking[T](turn: Condition, looks: Boolean)(sleeps: => Unit)(attempt: Boolean => T): T = {
    var left = if (looks) LaneFeed.LooksBeforeWaiting else 0
    var taken = attempt(left > 0)
    while (taken == null) {
      if (left > 0) {
        left -= 1
        turn.awaitNanos(LaneFeed.LookNs)
      } else sleeps
      taken = attempt(left > 0)
    }
    taken
  }
}

private[lane] object LaneFeed {

  /** How often an idle lane looks again by itself before it waits for a signal, and how long it waits in between: under load the
    * receiver then need not wake it for every row. Where rows are farther apart than that, one signal for each is cheaper than
    * more looks: a look costs about as much.
    */
  private val LooksBeforeWaiting = 4
  private val LookNs = TimeUnit.MICROSECONDS.toNanos(500)

  /** So many rows that wait wake a lane that would look again by itself. */
  val RowsWorthWaking = 32
}

/** What a lane has done: rows that it has taken, and the time in which it had some, without its waits for them and for room
  * behind it. Not safe for several threads.
  */
private[lane] class LaneClock(clock: () => Long) {
  var rows = 0L
  private var begunNs = 0L
  private var idleNs = 0L
  private var idleSinceNs = 0L
  private var roomNs = 0L

  def hasBegun: Boolean = begunNs != 0L
  def begin(atRest: Boolean = false): Unit = if (begunNs == 0L) {
    begunNs = clock()
    if (atRest) idleSinceNs = begunNs
  }

  /** It has nothing to do from now on, or has again. */
  def rests(): Unit = if (idleSinceNs == 0L) idleSinceNs = clock()
  def works(): Unit = if (idleSinceNs != 0L) {
    idleNs += clock() - idleSinceNs
    idleSinceNs = 0L
  }

  /** It has waited for room, with rows. */
  def waited(ns: Long): Unit = {
    idleNs += ns
    roomNs += ns
  }

  def busyUntil(nowNs: Long): Long =
    if (begunNs == 0L) 0L else (if (idleSinceNs == 0L) nowNs else idleSinceNs) - begunNs - idleNs

  /** How long it has had rows until now, its waits for room among that. */
  def putOutUntil(): Long = busyUntil(clock()) + roomNs
}
