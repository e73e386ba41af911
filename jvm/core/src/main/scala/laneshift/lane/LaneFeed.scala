package laneshift.lane

/** What gives the lanes of one partition task their rows: an [[Inlet]], where shards are owned, or [[Deals]], where any lane may
  * have any row. Any thread may call it.
  */
trait LaneFeed {

  /** Changes the number of lanes and says how many there are now: fewer if some cannot start; `Left` says why it cannot be. */
  def setLanes(count: Int): Either[String, Int]

  def stats: InletStats
}
