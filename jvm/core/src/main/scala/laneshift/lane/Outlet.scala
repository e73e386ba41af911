package laneshift.lane

import java.util.concurrent.locks.{Lock, ReentrantLock}

/** The way of outputs from the threads that compute them to the task's own thread: one bounded queue, first in first out over
  * all of them. That is what keeps the order per key across a handoff: a lane puts its outputs here before it acknowledges
  * (docs/handoff.md).
  *
  * A bound in bytes pushes back on whoever puts out; a block or row larger than the bound passes alone.
  */
final class Outlet[R](limitBytes: Long, newBlock: () => RowBlock[R], lock: Lock = new ReentrantLock)
    extends Monitor(lock) {
  private val notEmpty = newTurn()
  private val notFull = newTurn()
  private val wanted = newTurn()
  private val queue = new RowQueue[R](newBlock)
  private var producers = 0
  private var emitterWaits = false

  /** Counts a thread in; before it starts. */
  def addProducer(): Unit = locked(producers += 1)

  /** Counts a thread out, after its last block. */
  def producerDone(): Unit = locked {
    producers -= 1
    if (producers == 0) notEmpty.signal()
  }

  /** Gives a block away. Returns how long that had to wait for room, in nanoseconds. */
  def put(block: RowBlock[R]): Long = putting(tryPut(block))

  /** The same with a copy of one row, for whoever cannot say when it waits for the next: blocks are filled here. */
  def put(row: R, bytes: Long): Long = putting(tryPut(bytes)(queue.append(row, 0)))

  private def putting(attempt: => Boolean): Long = locked {
    if (attempt) 0L
    else {
      val since = System.nanoTime()
      do notFull.await()
      while (!attempt)
      System.nanoTime() - since
    }
  }

  /** One attempt, under the lock; false if the lane has to wait for a signal. */
  private[lane] def tryPut(block: RowBlock[R]): Boolean = tryPut(block.bytes)(queue.add(block))

  private def tryPut(size: Long)(add: => Unit): Boolean = {
    checkRunning()
    val room = queue.bytes == 0 || queue.bytes + size <= limitBytes
    if (room) {
      add
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

  /** The next block, or None once every thread is done. Throws the cause of a failure as it is. Calls `whileIdle` every
    * `pollMs` milliseconds of waiting; what that throws ends the wait.
    */
  def take(pollMs: Long, whileIdle: () => Unit): Option[RowBlock[R]] =
    locked(polling(notEmpty, pollMs, whileIdle)(tryTake()))

  /** One attempt, under the lock; null if the emitter has to wait for a signal. */
  private[lane] def tryTake(): Option[RowBlock[R]] = {
    if (failure != null) throw failure
    emitterWaits = queue.isEmpty && producers > 0
    if (emitterWaits) {
      wanted.signalAll()
      null
    } else {
      val block = queue.poll()
      notFull.signalAll()
      Option(block)
    }
  }
}
