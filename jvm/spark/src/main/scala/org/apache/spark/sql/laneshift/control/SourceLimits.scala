package org.apache.spark.sql.laneshift.control

import java.util.concurrent.ConcurrentHashMap

/** How fast a query's source may go: `rate` rows per second or, if `relative`, that share of what it gives when it hears of it. */
final case class SourceLimit(rate: Double, relative: Boolean, untilNs: Long)

/** Limits of the sources of Real-time queries, by query id. Each process has its own: the driver tells all executors. */
object SourceLimits {
  private val limits = new ConcurrentHashMap[String, SourceLimit]

  /** No query had a limit so far: readers look at this for each row. */
  @volatile private var used = false

  /** A new limit replaces one that is still in force. */
  def set(queryId: String, rate: Double, relative: Boolean, seconds: Double): Unit = {
    limits.put(queryId, SourceLimit(rate, relative, System.nanoTime() + (seconds * 1e9).toLong))
    used = true
  }

  /** The limit in force for all readers of the query together; null without one. */
  def of(queryId: String): SourceLimit =
    if (!used || queryId == null) null
    else {
      val limit = limits.get(queryId)
      if (limit == null || System.nanoTime() < limit.untilNs) limit
      else {
        limits.remove(queryId, limit)
        null
      }
    }
}
