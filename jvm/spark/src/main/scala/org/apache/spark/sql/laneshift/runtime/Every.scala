package org.apache.spark.sql.laneshift.runtime

/** A turn every so many nanoseconds; the first is due at once. Its owner's lock guards it. */
private[runtime] final class Every(ns: Long) {
  private var lastNs = -(1L << 62)

  /** Whether a turn is due: if so it is taken, and the next is due `ns` later. */
  def isDue(nowNs: Long): Boolean = {
    val due = nowNs - lastNs >= ns
    if (due) lastNs = nowNs
    due
  }
}
