package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.apache.spark.sql.laneshift.runtime.PartitionPressed
import org.apache.spark.sql.laneshift.spec.OperatorKey

/** What an executor has told of a pressed partition, and when the driver heard of it (ms since 1970).
  *
  * @param seq grows with each
  */
private[laneshift] final case class Heard(seq: Long, atMs: Long, press: PartitionPressed)

/** Lets autoscalers wait for partitions that become pressed (docs/decisions/0022). */
private[laneshift] final class Presses(
    nowMs: () => Long = () => System.currentTimeMillis(),
    clock: () => Long = () => System.nanoTime()
) {
  private val newest = mutable.LinkedHashMap.empty[(OperatorKey, Int), Heard]
  private var seq = 0L
  private var calls = 0L

  /** By autoscaler, its newest call that waits. */
  private val waiting = mutable.Map.empty[String, Long]
  private var over = false

  def heard(press: PartitionPressed): Unit = synchronized {
    seq += 1
    val now = nowMs()
    newest.filterInPlace((_, heard) => now - heard.atMs <= Presses.FreshMs)
    newest((press.key, press.index)) = Heard(seq, now, press)
    notifyAll()
  }

  /** Waits for partitions of a run, of any if `runId` is empty, that were told of after `after`, `seconds` at most. Their newest
    * number, and those that are fresh. A newer call of the same autoscaler ends one that waits.
    */
  def await(autoscaler: String, runId: String, after: Long, seconds: Double): (Long, Seq[Heard]) =
    synchronized {
      calls += 1
      val mine = calls
      waiting(autoscaler) = mine
      notifyAll()
      def found = {
        val now = nowMs()
        newest.values.filter { h =>
          h.seq > after && now - h.atMs <= Presses.FreshMs && (runId.isEmpty || h.press.key.runId == runId)
        }.toSeq
      }
      val untilNs = clock() + (seconds * 1e9).toLong
      def leftNs = untilNs - clock()
      def isCurrent = waiting.get(autoscaler).contains(mine)
      while (found.isEmpty && isCurrent && !over && leftNs > 0) TimeUnit.NANOSECONDS.timedWait(this, leftNs)
      if (isCurrent) waiting.remove(autoscaler)
      (seq, found)
    }

  private[driver] def isAwaitedBy(autoscaler: String): Boolean = synchronized(waiting.contains(autoscaler))

  /** The application ends: nobody waits any more. */
  def stop(): Unit = synchronized {
    over = true
    notifyAll()
  }
}

private[laneshift] object Presses {

  /** What was told longer ago is no news. */
  private val FreshMs = 500L
}
