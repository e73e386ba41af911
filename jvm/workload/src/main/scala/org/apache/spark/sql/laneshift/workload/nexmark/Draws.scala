package org.apache.spark.sql.laneshift.workload.nexmark

import org.apache.spark.sql.laneshift.workload.Mixer

/** The random draws of one event, one after the other; those of other events do not matter. */
private[nexmark] final class Draws(stream: Long) {

  private var state = 0L

  def begin(event: Long): Unit = state = Mixer.mix(stream + event * Mixer.Gamma)

  def next(): Long = {
    state += Mixer.Gamma
    Mixer.mix(state)
  }

  /** Uniform in 0 to `bound`, exclusively. */
  def below(bound: Long): Long = Mixer.below(next(), bound)

  def happens(share: Double): Boolean = Mixer.unit(next()) < share

  /** From 100 to 100,000,000, equally likely in each power of ten. The strict function gives the same on every machine. */
  def price(): Long = Math.round(StrictMath.pow(10, Mixer.unit(next()) * 6) * 100)

  def pick[A](from: Array[A]): A = from(below(from.length).toInt)

  /** Fills the first `length` bytes of `into` with letters. */
  def letters(into: Array[Byte], length: Int): Unit = {
    var i = 0
    var word = 0L
    while (i < length) {
      if (i % 12 == 0) word = next() >>> 4
      into(i) = ('a' + word % 26).toByte
      word /= 26
      i += 1
    }
  }
}
