package org.apache.spark.sql.laneshift.workload

/** A random permutation of 0..n-1 that needs no table: a Feistel network over the next power of two, walked
  * until it lands inside (J. Black and P. Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). A
  * new shuffle therefore costs nothing at the moment it happens, whatever the number of keys: no pause shows
  * up in a latency measurement.
  */
private[workload] final class KeyShuffle(keys: Int, seed: Long, index: Long) {

  private val bits = 32 - Integer.numberOfLeadingZeros(keys - 1)
  private val rightBits = bits - bits / 2
  private val leftMask = (1 << (bits / 2)) - 1
  private val rightMask = (1 << rightBits) - 1
  private val roundKeys = Array.tabulate(KeyShuffle.Rounds)(r => Mixer.stream(Mixer.stream(seed, index), r))

  /** The key that holds this frequency rank. */
  def key(rank: Int): Int = {
    var x = walk(rank)
    while (x >= keys) x = walk(x)
    x
  }

  private def walk(x: Int): Int = {
    var left = x >>> rightBits
    var right = x & rightMask
    var r = 0
    while (r < KeyShuffle.Rounds) {
      left ^= round(right, r) & leftMask
      right ^= round(left, r + 1) & rightMask
      r += 2
    }
    (left << rightBits) | right
  }

  private def round(half: Int, r: Int): Int = {
    val z = (half + roundKeys(r)) * Mixer.Gamma
    ((z ^ (z >>> 29)) * 0xbf58476d1ce4e5b9L >>> 32).toInt
  }
}

private[workload] object KeyShuffle {
  private val Rounds = 6
}
