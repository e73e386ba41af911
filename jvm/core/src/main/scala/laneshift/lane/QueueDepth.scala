package laneshift.lane

/** A bound of what waits for a lane, as the time that it needs for it; `leastRows` may wait in any case. */
final case class QueueTime(ns: Long, leastRows: Long = 128L)

/** How many rows may wait for a lane: as many as it got rid of in the last so much time in which it had rows. Few, until it has. */
private[lane] final class QueueDepth(bound: QueueTime) {
  private val stepNs = math.max(1L, bound.ns / QueueDepth.Steps)

  /** Rows and time at each of the newest steps; the one at `at` is the newest, the next one the oldest. */
  private val rowsAt = new Array[Long](QueueDepth.Steps)
  private val nsAt = new Array[Long](QueueDepth.Steps)
  private var at = 0
  private var allowed = bound.leastRows

  def rows: Long = allowed

  /** @param done rows that the lane has got rid of
    * @param ns time in which it had rows
    */
  def note(done: Long, ns: Long): Unit = {
    if (ns - nsAt(at) >= stepNs) {
      at = (at + 1) % QueueDepth.Steps
      rowsAt(at) = done
      nsAt(at) = ns
    }
    val oldest = (at + 1) % QueueDepth.Steps
    val (rows, took) = (done - rowsAt(oldest), ns - nsAt(oldest))
    val inTime = if (took > bound.ns) (rows.toDouble / took * bound.ns).toLong else rows
    allowed = math.max(bound.leastRows, inTime)
  }
}

private[lane] object QueueDepth {
  private val Steps = 16
}
