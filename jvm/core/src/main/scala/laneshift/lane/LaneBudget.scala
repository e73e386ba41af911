package laneshift.lane

/** How many lanes beyond their first one the partitions of one process may run at a time. Whoever asks gets what is free: a
  * partition always has its first lane, and asks again for more.
  */
final class LaneBudget(limit: Int) {
  require(limit >= 0, s"a budget of $limit lanes")
  private var lent = 0

  /** Takes up to `wanted` and says how many. */
  def take(wanted: Int): Int = synchronized {
    val granted = math.max(0, math.min(wanted, limit - lent))
    lent += granted
    granted
  }

  def give(lanes: Int): Unit = synchronized {
    require(lanes >= 0 && lanes <= lent, s"$lanes lanes come back of $lent")
    lent -= lanes
  }

  def free: Int = synchronized(limit - lent)

  def taken: Int = synchronized(lent)
}
