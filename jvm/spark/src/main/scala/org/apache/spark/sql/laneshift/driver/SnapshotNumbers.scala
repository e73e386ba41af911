package org.apache.spark.sql.laneshift.driver

import java.util.Arrays

/** Numbers snapshots, from 1 on: one that says what the one before said has its number, so who has that need not be told again. */
private[laneshift] final class SnapshotNumbers {
  private var number = 0L
  private var content = Array.empty[Byte]
  private var about: Any = None

  /** @param about what is said of `content` beside it */
  def of(content: Array[Byte], about: Any): Long = synchronized {
    if (number == 0L || this.about != about || !Arrays.equals(this.content, content)) {
      number += 1
      this.content = content
      this.about = about
    }
    number
  }
}
