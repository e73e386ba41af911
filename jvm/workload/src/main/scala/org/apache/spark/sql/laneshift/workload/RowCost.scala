package org.apache.spark.sql.laneshift.workload

import java.util.concurrent.atomic.LongAdder
import java.util.concurrent.locks.LockSupport

/** Spends the time that a row is to cost, on the calling thread. Durations in microseconds.
  *
  *   - `spin` burns CPU: a busy loop until the monotonic clock has advanced by the cost. It measures elapsed
  *     time, not CPU time (reading a thread's CPU time costs about a microsecond itself), so a thread that
  *     loses its core meanwhile burns less.
  *   - `wait` sleeps, which emulates a core that this machine need not have. What a sleep takes too long is
  *     subtracted from the thread's next costs (at most [[MaxOwedMicros]] of it), so that on average a row
  *     costs just what it should, beside its own work.
  *   - `pace` sleeps to an absolute deadline: `max(previous deadline, now - MaxOwedMicros) + cost`. The row's
  *     own work and the idle time before it count towards the cost: a thread finishes one row per cost on
  *     average, work included, and after an idle time up to [[MaxOwedMicros]] worth of rows at once.
  *
  * A thread that is interrupted meanwhile throws an InterruptedException.
  */
object RowCost {

  val Modes: Seq[String] = Seq("spin", "wait", "pace")

  /** The most that one row may cost: one minute. */
  final val MaxMicros = 60e6

  /** The most delay that a thread makes up for. */
  final val MaxOwedMicros = 20000L

  private val Spin = Modes.indexOf("spin")
  private val Wait = Modes.indexOf("wait")

  /** Costs spent in this JVM so far: for checks that the optimiser neither drops nor doubles them. */
  val spent = new LongAdder

  private final class Sleeper {
    var owed = 0L // nanoseconds overslept and not yet made up
    var deadline = System.nanoTime() // of mode `pace`
  }
  private val sleepers = ThreadLocal.withInitial[Sleeper](() => new Sleeper)

  def allowed(micros: Double): Boolean = micros >= 0 && micros <= MaxMicros

  /** @param mode index into [[Modes]]. Called by generated code. */
  def spend(micros: Double, mode: Int): Unit = {
    if (!allowed(micros)) throw new IllegalArgumentException(refusal(micros))
    spent.increment()
    val cost = (micros * 1000).toLong
    if (cost > 0) {
      if (mode == Spin) spin(System.nanoTime() + cost)
      else if (mode == Wait) sleepBeside(sleepers.get(), cost)
      else sleepWithin(sleepers.get(), cost)
    }
  }

  def refusal(micros: Double): String =
    s"The argument 'micros' of laneshift_cost is $micros, but must be a number " +
      s"from 0 to ${MaxMicros.toLong} (microseconds a row; one minute at most). " +
      "Check the expression that computes it."

  private def spin(until: Long): Unit = while (System.nanoTime() - until < 0) {
    stopIfInterrupted()
    Thread.onSpinWait()
  }

  private def sleepBeside(sleeper: Sleeper, cost: Long): Unit = {
    val until = System.nanoTime() - sleeper.owed + cost
    sleeper.owed = Math.min(sleepUntil(until), MaxOwedMicros * 1000)
  }

  private def sleepWithin(sleeper: Sleeper, cost: Long): Unit = {
    val earliest = System.nanoTime() - MaxOwedMicros * 1000
    sleeper.deadline = (if (sleeper.deadline - earliest < 0) earliest else sleeper.deadline) + cost
    sleepUntil(sleeper.deadline)
  }

  /** Nanoseconds by which the sleep ended too late. */
  private def sleepUntil(until: Long): Long = {
    var late = System.nanoTime() - until
    while (late < 0) {
      stopIfInterrupted()
      LockSupport.parkNanos(-late)
      late = System.nanoTime() - until
    }
    late
  }

  private def stopIfInterrupted(): Unit =
    if (Thread.interrupted()) throw new InterruptedException("interrupted in laneshift_cost")
}
