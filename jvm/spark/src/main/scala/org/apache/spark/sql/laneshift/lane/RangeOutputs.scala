package org.apache.spark.sql.laneshift.lane

import java.util.ArrayDeque
import java.util.concurrent.locks.LockSupport

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import laneshift.lane.{CoreShare, PartitionStopped}

/** The way of outputs from the threads that compute a task's partitions to the task's own thread: a bounded queue for each, which
  * keeps the order of its rows. A thread whose queue is full waits.
  *
  * @param eager rows go on as soon as the task's thread asks, in blocks that are not full, too
  */
private[lane] final class RangeOutputs(threads: Int, limitBytes: Long, eager: Boolean) {
  private val outputs = Array.fill(threads)(new Output)
  private var next = 0
  @volatile private var failure: Throwable = _
  @volatile private var reader: Thread = _

  def output(thread: Int): Output = outputs(thread)

  /** The queue of one thread. */
  final class Output {
    private val full = new ArrayDeque[UnsafeRowBlock]
    private var bytes = 0L
    private var block = new UnsafeRowBlock
    private var isDone = false

    /** The thread's last row was the last of its block. */
    private var isClosed = false

    /** Copies the row. Throws [[PartitionStopped]] once the task has failed. */
    def add(row: UnsafeRow): Unit = {
      while (!tryAdd(row)) CoreShare.waiting(awaitRoom())
      if (eager || isClosed) tell()
    }

    /** There will be no more rows. */
    def done(): Unit = {
      synchronized {
        if (block.size > 0) close()
        isDone = true
      }
      tell()
    }

    private def tryAdd(row: UnsafeRow): Boolean = synchronized {
      if (failure != null) throw new PartitionStopped(failure)
      val room = hasRoom
      if (room) {
        block.append(row, 0)
        isClosed = block.isFull
        if (isClosed) close()
      }
      room
    }

    private def hasRoom: Boolean = bytes == 0L || bytes < limitBytes

    private def close(): Unit = {
      full.addLast(block)
      bytes += block.bytes
      block = new UnsafeRowBlock
    }

    private def awaitRoom(): Unit = synchronized {
      while (!hasRoom && failure == null) wait()
    }

    private[RangeOutputs] def poll(): UnsafeRowBlock = synchronized {
      if (eager && full.isEmpty && block.size > 0) close()
      val taken = full.pollFirst()
      if (taken != null) {
        bytes -= taken.bytes
        notifyAll()
      }
      taken
    }

    private[RangeOutputs] def isOver: Boolean = synchronized(isDone && full.isEmpty)

    private[RangeOutputs] def wake(): Unit = synchronized(notifyAll())
  }

  /** There is something to take. */
  private def tell(): Unit = {
    val waits = reader
    if (waits != null) LockSupport.unpark(waits)
  }

  def fail(cause: Throwable): Unit = {
    if (failure == null) failure = cause
    outputs.foreach(_.wake())
    tell()
  }

  /** The next block of any thread, or None once all are done. Throws the cause of a failure as it is. Calls `whileIdle` every
    * `pollMs` milliseconds of waiting; what that throws ends the wait.
    */
  def take(pollMs: Long, whileIdle: () => Unit): Option[UnsafeRowBlock] = {
    var taken = tryTake()
    if (taken == null) {
      reader = Thread.currentThread()
      try {
        taken = tryTake()
        while (taken == null) {
          LockSupport.parkNanos(this, pollMs * 1000000L)
          whileIdle()
          taken = tryTake()
        }
      } finally reader = null
    }
    taken
  }

  /** Null if there is nothing yet. Each thread in turn is asked first. */
  private def tryTake(): Option[UnsafeRowBlock] = {
    if (failure != null) throw failure
    var block: UnsafeRowBlock = null
    var over = true
    var asked = 0
    while (block == null && asked < threads) {
      val output = outputs(next)
      next = (next + 1) % threads
      asked += 1
      block = output.poll()
      over = over && block == null && output.isOver
    }
    if (block != null) Some(block)
    else if (over) None
    else null
  }
}
