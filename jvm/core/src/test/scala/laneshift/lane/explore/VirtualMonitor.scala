package laneshift.lane.explore

import java.util.Date
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.{Condition, Lock}

import scala.collection.mutable.ArrayBuffer

/** The lock of a monitor that one thread explores. It only checks its own use; its conditions note who waits for a signal
  * instead of waiting.
  */
final class VirtualLock extends Lock {
  private var depth = 0

  /** In the order in which the monitor made them. */
  val conditions = ArrayBuffer.empty[VirtualCondition]

  override def lock(): Unit = depth += 1
  override def unlock(): Unit = {
    requireHeld()
    depth -= 1
  }
  override def lockInterruptibly(): Unit = lock()
  override def tryLock(): Boolean = { lock(); true }
  override def tryLock(time: Long, unit: TimeUnit): Boolean = tryLock()
  override def newCondition(): Condition = {
    val condition = new VirtualCondition(this)
    conditions += condition
    condition
  }

  def isHeld: Boolean = depth > 0
  def requireHeld(): Unit = if (depth <= 0) throw new IllegalMonitorStateException

  def within[T](body: => T): T = {
    lock()
    try body
    finally unlock()
  }
}

/** Actors, as bits, that wait for a signal. */
final class VirtualCondition(lock: VirtualLock) extends Condition {
  private var waiting = 0

  def add(actor: Int): Unit = waiting |= 1 << actor
  def remove(actor: Int): Unit = waiting &= ~(1 << actor)
  def isWaiting(actor: Int): Boolean = (waiting & (1 << actor)) != 0

  override def signal(): Unit = {
    lock.requireHeld()
    waiting &= waiting - 1
  }
  override def signalAll(): Unit = {
    lock.requireHeld()
    waiting = 0
  }

  private def never: Nothing = throw new IllegalStateException("nobody waits while schedules are explored")
  override def await(): Unit = never
  override def awaitUninterruptibly(): Unit = never
  override def awaitNanos(nanos: Long): Long = never
  override def await(time: Long, unit: TimeUnit): Boolean = never
  override def awaitUntil(deadline: Date): Boolean = never
}
