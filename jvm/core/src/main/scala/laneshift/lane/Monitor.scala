package laneshift.lane

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.{Condition, Lock}

import scala.collection.mutable.ArrayBuffer

/** Thrown to whoever uses something of a partition after the partition has failed or was stopped. */
final class PartitionStopped(cause: Throwable)
    extends RuntimeException("the elastic partition has stopped", cause)

/** Where threads of one partition wait for each other: one lock, and turns, each of which some of them wait for. Each method that
  * waits is a loop of attempts, which change everything or nothing, and of waits for a turn's signal.
  */
abstract class Monitor private[lane] (lock: Lock) {
  private val turns = new ArrayBuffer[Condition]
  @volatile private var cause: Throwable = _

  protected def newTurn(): Condition = {
    val turn = lock.newCondition()
    turns += turn
    turn
  }

  /** Why it has stopped, or null. */
  protected def failure: Throwable = cause

  private[lane] def checkRunning(): Unit = if (cause != null) throw new PartitionStopped(cause)

  private[lane] def locked[T](body: => T): T = {
    lock.lock()
    try body
    finally lock.unlock()
  }

  /** Stops everybody: each waiting or later call throws. The first cause counts. */
  def fail(why: Throwable): Unit = locked {
    if (cause == null) cause = why
    turns.foreach(_.signalAll())
  }

  /** What the first attempt gives that is not null. Calls `whileIdle` every `pollMs` milliseconds of waiting; what that throws
    * ends the wait. Under the lock.
    */
  protected def polling[T](turn: Condition, pollMs: Long, whileIdle: () => Unit)(attempt: => T): T = {
    var found = attempt
    while (found == null) {
      if (!turn.await(pollMs, TimeUnit.MILLISECONDS)) whileIdle()
      found = attempt
    }
    found
  }
}
