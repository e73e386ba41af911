package laneshift.lane

import java.util.ArrayDeque
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.{Lock, ReentrantLock}

/** The way of outputs from the lanes to the emitter: one bounded queue, first in first out over all lanes. That is what
  * keeps the order per key across a handoff: a lane puts its outputs here before it acknowledges (docs/handoff.md).
  *
  * A bound in bytes pushes back on the lanes; a block larger than the bound passes alone.
  */
final class Outlet[B](limitBytes: Long, bytesOf: B => Long, lock: Lock = new ReentrantLock) {
  private val notEmpty = lock.newCondition()
  private val notFull = lock.newCondition()
  private val wanted = lock.newCondition()
  private val queue = new ArrayDeque[B]
  private var bytes = 0L
  private var producers = 0
  private var emitterWaits = false
  @volatile private var failure: Throwable = _

  /** Counts a lane in; before its thread starts. */
  def addProducer(): Unit = locked(producers += 1)

  /** Counts a lane out, after its last block. */
  def producerDone(): Unit = locked {
    producers -= 1
    if (producers == 0) notEmpty.signal()
  }

  /** Returns how long it had to wait for room, in nanoseconds. */
  def put(block: B): Long = locked {
    if (tryPut(block)) 0L
    else {
      val since = System.nanoTime()
      do notFull.await()
      while (!tryPut(block))
      System.nanoTime() - since
    }
  }

  /** One attempt, under the lock; false if the lane has to wait for a signal. */
  private[lane] def tryPut(block: B): Boolean = {
    checkRunning()
    val size = bytesOf(block)
    val room = bytes == 0 || bytes + size <= limitBytes
    if (room) {
      queue.addLast(block)
      bytes += size
      if (emitterWaits) notEmpty.signal()
    }
    room
  }

  /** Returns when every block has been taken and the emitter waits for one. */
  def awaitWanted(): Unit = locked(while (!isWanted) wanted.await())

  /** One look, under the lock; false if the lane has to wait for a signal. */
  private[lane] def isWanted: Boolean = {
    checkRunning()
    emitterWaits && queue.isEmpty
  }

  /** The next block, or None once every lane is done. Throws the cause of a failure as it is. Calls `whileIdle` every
    * `pollMs` milliseconds of waiting; what that throws ends the wait.
    */
  def take(pollMs: Long, whileIdle: () => Unit): Option[B] = locked {
    var taken = tryTake()
    while (taken == null) {
      if (!notEmpty.await(pollMs, TimeUnit.MILLISECONDS)) whileIdle()
      taken = tryTake()
    }
    taken
  }

  /** One attempt, under the lock; null if the emitter has to wait for a signal. */
  private[lane] def tryTake(): Option[B] = {
    if (failure != null) throw failure
    emitterWaits = queue.isEmpty && producers > 0
    if (emitterWaits) {
      wanted.signalAll()
      null
    } else if (queue.isEmpty) None
    else {
      val block = queue.pollFirst()
      bytes -= bytesOf(block)
      notFull.signalAll()
      Some(block)
    }
  }

  def fail(cause: Throwable): Unit = locked {
    if (failure == null) failure = cause
    notEmpty.signalAll()
    notFull.signalAll()
    wanted.signalAll()
  }

  private def checkRunning(): Unit = if (failure != null) throw new PartitionStopped(failure)

  private def locked[T](body: => T): T = {
    lock.lock()
    try body
    finally lock.unlock()
  }
}
