package org.apache.spark.sql.laneshift.wire

/** Log lines of which others can cause any number: writes one in a while, with the number of those left out before it. */
private[wire] final class RareLog(everyNs: Long, clock: () => Long)(write: String => Unit) {
  private var writtenNs = Option.empty[Long]
  private var leftOut = 0L

  def apply(line: => String): Unit = synchronized {
    val now = clock()
    if (writtenNs.forall(now - _ >= everyNs)) {
      write(if (leftOut == 0) line else s"$line ($leftOut more of the kind since the last such line)")
      writtenNs = Some(now)
      leftOut = 0
    } else leftOut += 1
  }
}
