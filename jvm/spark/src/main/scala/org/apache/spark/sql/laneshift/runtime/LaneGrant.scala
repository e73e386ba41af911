package org.apache.spark.sql.laneshift.runtime

import laneshift.lane.LaneBudget

/** What one task has of its process's lanes: the first is its own. */
private[runtime] final class LaneGrant(budget: LaneBudget) {
  private var more = 0
  private var over = false

  def lanes: Int = synchronized(1 + more)

  /** Takes up to `wanted` more and says how many. */
  def take(wanted: Int): Int = synchronized {
    val got = if (over) 0 else budget.take(wanted)
    more += got
    got
  }

  /** Gives back what is beyond `lanes`. */
  def keep(lanes: Int): Unit = synchronized {
    val back = math.max(0, more - (lanes - 1))
    budget.give(back)
    more -= back
  }

  def giveBack(): Unit = synchronized {
    keep(1)
    over = true
  }
}
