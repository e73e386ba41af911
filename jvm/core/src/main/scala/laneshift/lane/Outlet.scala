package laneshift.lane

import java.util.ArrayDeque
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock

/** The way of outputs from the lanes to the emitter: one bounded queue, first in first out over all lanes. That is what
  * keeps the order per key across a handoff: a lane puts its outputs here before it acknowledges (docs/handoff.md).
  *
  * A bound in bytes pushes back on the lanes; a block larger than the bound passes alone.
  */
final class Outlet[B](limitBytes: Long, bytesOf: B => Long) {
  private val lock = new ReentrantLock
  private val notEmpty = lock.newCondition()
  private val notFull = lock.newCondition()
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

  def put(block: B): Unit = {
    val size = bytesOf(block)
    locked {
      while (bytes > 0 && bytes + size > limitBytes) {
        checkRunning()
        notFull.await()
      }
      checkRunning()
      queue.addLast(block)
      bytes += size
      if (emitterWaits) notEmpty.signal()
    }
  }

  /** The next block, or None once every lane is done. Throws the cause of a failure as it is. Calls `whileIdle` every
    * `pollMs` milliseconds of waiting; what that throws ends the wait.
    */
  def take(pollMs: Long, whileIdle: () => Unit): Option[B] = locked {
    while (failure == null && queue.isEmpty && producers > 0) {
      emitterWaits = true
      val signalled =
        try notEmpty.await(pollMs, TimeUnit.MILLISECONDS)
        finally emitterWaits = false
      if (!signalled) whileIdle()
    }
    if (failure != null) throw failure
    val block = queue.pollFirst()
    if (block == null) None
    else {
      bytes -= bytesOf(block)
      notFull.signalAll()
      Some(block)
    }
  }

  def fail(cause: Throwable): Unit = locked {
    if (failure == null) failure = cause
    notEmpty.signalAll()
    notFull.signalAll()
  }

  private def checkRunning(): Unit = if (failure != null) throw new PartitionStopped(failure)

  private def locked[T](body: => T): T = {
    lock.lock()
    try body
    finally lock.unlock()
  }
}
