package laneshift.lane

import java.util.ArrayDeque
import java.util.concurrent.locks.{Lock, ReentrantLock}

import scala.collection.mutable.ArrayBuffer

import laneshift.ids.LaneId

/** Rows of a store in some order, a few at a time. One thread at a time uses it. */
trait ScanSource[R] {

  /** The next rows; empty at the end. Whoever gets them may change the queue. */
  def fetch(): ArrayDeque[R]

  def close(): Unit
}

/** The scans that the lanes of a partition make once their input has ended (docs/handoff.md, section 6). Lanes that come to
  * the same scan make it together: it opens when no lane can write any more what it should see, and then whoever needs rows
  * fetches some and deals each to the lane that owns it.
  *
  * Lane i's thread calls `begin(i)` and `leave(i)`, any thread `fail`. One lock for all scans of the partition; nobody waits
  * for a lane that can only go on after it: a lane that has begun a later scan is dealt rows beyond the bound.
  *
  * @param participants the lanes that make scans; final before the first scan
  * @param limitBytes bytes of rows that wait for one lane before nobody fetches more
  */
final class EndScans[R](
    maxLanes: Int,
    participants: () => Seq[Int],
    limitBytes: Long,
    bytesOf: R => Long,
    lock: Lock = new ReentrantLock
) extends Monitor(lock) {
  private val turn = newTurn()

  /** How many scans each lane has begun. */
  private val begun = new Array[Int](maxLanes)
  private val scans = new ArrayBuffer[Scan]

  /** Begins the lane's next scan, of `what`. Returns its part once the scan is open; or null, at once, if other lanes scan
    * something else at this point, so that this one has to scan by itself.
    */
  def begin(lane: LaneId, what: Any)(open: => ScanSource[R]): Part = locked {
    val part = arrive(lane, what)
    while (part != null && !part.tryOpen(open)) turn.await()
    part
  }

  /** The lane makes no more scans and reads none. */
  def leave(lane: LaneId): Unit = locked {
    begun(lane.value) = Int.MaxValue
    scans.foreach(_.close(lane.value))
    turn.signalAll()
  }

  /** Under the lock: the lane's part of its next scan, or null. Others may go on now. */
  private[lane] def arrive(lane: LaneId, what: Any): Part = {
    checkRunning()
    val number = begun(lane.value)
    begun(lane.value) += 1
    turn.signalAll()
    if (number == scans.size) scans += new Scan(number, what)
    if (scans(number).what == what) scans(number).join(lane.value) else null
  }

  private final class Scan(number: Int, val what: Any) {
    private val parts = new Array[Part](maxLanes)
    private var source: ScanSource[R] = _
    private var ended = false

    def join(lane: Int): Part = {
      parts(lane) = new Part(this)
      parts(lane)
    }

    /** Opens the scan if every lane has come to it, or past it: all that it should see is written. */
    def tryOpen(open: => ScanSource[R]): Boolean = {
      checkRunning()
      val all = participants().forall(begun(_) > number)
      if (source == null && all) {
        source = open
        turn.signalAll()
      }
      source != null
    }

    /** Fetches rows and deals them out; false if the scan has ended. */
    def deal(owner: R => Int): Boolean = {
      if (!ended) {
        val rows = source.fetch()
        if (rows.isEmpty) end()
        else rows.forEach { row =>
          val part = parts(owner(row))
          if (part != null) part.add(row)
        }
      }
      !ended
    }

    /** False if rows wait for a lane that will come for them. */
    def hasRoom: Boolean = parts.indices.forall { i =>
      parts(i) == null || parts(i).bytes < limitBytes || begun(i) > number + 1
    }

    private def end(): Unit = if (!ended) {
      ended = true
      if (source != null) source.close()
      turn.signalAll()
    }

    def close(lane: Int): Unit = if (parts(lane) != null) close(parts(lane))

    def close(part: Part): Unit = {
      part.drop()
      turn.signalAll()
      if (parts.forall(p => p == null || p.isClosed)) end()
    }
  }

  /** One lane's part of a scan. */
  final class Part private[EndScans] (scan: Scan) {
    private var rows = new ArrayDeque[R]
    private var closed = false
    private[EndScans] var bytes = 0L

    /** The next rows of this lane, in the order of the store; empty at the end. `owner` tells the lane of a row. */
    def take(owner: R => Int): ArrayDeque[R] = locked {
      var taken = tryTake(owner)
      while (taken == null) {
        turn.await()
        taken = tryTake(owner)
      }
      taken
    }

    /** No more rows are wanted. */
    def close(): Unit = locked(scan.close(this))

    /** One attempt, under the lock; null if the lane has to wait for a signal. */
    private[lane] def tryTake(owner: R => Int): ArrayDeque[R] = {
      checkRunning()
      var more = !closed
      while (rows.isEmpty && more && scan.hasRoom) more = scan.deal(owner)
      if (rows.isEmpty && more) null
      else {
        val taken = rows
        rows = new ArrayDeque[R]
        if (bytes >= limitBytes) turn.signalAll()
        bytes = 0L
        taken
      }
    }

    /** Bytes of rows that wait for the lane. */
    private[lane] def waiting: Long = bytes

    private[lane] def tryOpen(open: => ScanSource[R]): Boolean = scan.tryOpen(open)

    private[EndScans] def isClosed: Boolean = closed

    private[EndScans] def add(row: R): Unit = if (!closed) {
      rows.addLast(row)
      bytes += bytesOf(row)
    }

    private[EndScans] def drop(): Unit = {
      closed = true
      rows.clear()
      bytes = 0L
    }
  }
}
