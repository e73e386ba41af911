package laneshift.planner

/** Smoothed load per shard from counters that only grow: an exponential average whose memory is `windowNs` nanoseconds.
  * Not thread-safe.
  */
final class LoadTracker(shards: Int, windowNs: Long) {
  private val smoothed = new Array[Double](shards)
  private var last = new Array[Long](shards)
  private var lastNs = 0L
  private var warm = false

  /** Takes in the counters at `nowNs`. A counter below its last value starts anew. Without any time passed, this waits for
    * the next update.
    */
  def update(counters: Array[Long], nowNs: Long): Unit = if (lastNs == 0L || nowNs > lastNs) {
    val elapsed = nowNs - lastNs
    if (lastNs != 0L) {
      val weight = if (warm) 1.0 - math.exp(-elapsed.toDouble / windowNs) else 1.0
      var s = 0
      while (s < shards) {
        val delta = if (counters(s) >= last(s)) counters(s) - last(s) else counters(s)
        smoothed(s) += weight * (delta * 1e9 / elapsed - smoothed(s))
        s += 1
      }
      warm = true
    }
    last = counters.clone()
    lastNs = nowNs
  }

  /** The counters start at zero again, as at a new batch: one that has passed its last value by the next update would
    * otherwise lose what it had counted up to there.
    */
  def restart(): Unit = last = new Array[Long](shards)

  /** Counts per second, by shard. */
  def loads: Array[Double] = smoothed.clone()

  /** False until there were two updates. */
  def isWarm: Boolean = warm
}
