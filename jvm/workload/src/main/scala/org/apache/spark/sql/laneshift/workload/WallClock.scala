package org.apache.spark.sql.laneshift.workload

import java.time.Instant
import java.util.concurrent.locks.LockSupport

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.util.DateTimeUtils

/** The time of day in microseconds since 1970: read once from the system, then carried on by the monotonic
  * clock.
  */
private[workload] final class WallClock {
  private val base = WallClock.read()
  private val nanos = System.nanoTime()

  def now(): Long = base + (System.nanoTime() - nanos) / 1000

  /** Sleeps until that time. Ends early, with the task's own exception, when the task is killed. */
  def sleepUntil(micros: Long): Unit = {
    val task = TaskContext.get()
    var left = micros - now()
    while (left > 0) {
      if (Thread.interrupted())
        throw new InterruptedException("interrupted while waiting for a row")
      if (task != null) task.killTaskIfInterrupted()
      LockSupport.parkNanos(Math.min(left, WallClock.LongestNap) * 1000)
      left = micros - now()
    }
  }
}

private[workload] object WallClock {

  /** The system's time, microseconds since 1970. */
  def read(): Long = DateTimeUtils.instantToMicros(Instant.now())

  /** Microseconds after which a sleeper looks whether its task was killed. */
  private val LongestNap = 100000L
}
