package org.apache.spark.sql.laneshift.workload

/** Pseudo-random numbers as pure functions: a 64-bit input gives a 64-bit output in which every bit depends on
  * every bit of the input. The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
  * number generators", OOPSLA 2014), so that `mix(base + n * Gamma)` for n = 0, 1, 2... is the stream of that
  * generator, with random access.
  */
private[workload] object Mixer {

  /** The golden ratio as an odd 64-bit fraction: the step of SplitMix64. */
  final val Gamma = 0x9e3779b97f4a7c15L

  def mix(x: Long): Long = {
    var z = x
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL
    z ^ (z >>> 31)
  }

  /** The start of the stream that belongs to (seed, index); streams of other indexes are independent of it.
    */
  def stream(seed: Long, index: Long): Long = mix(mix(seed + Gamma) + (index + 1) * Gamma)

  /** Uniform in [0, 1), in steps of 2^-53. */
  def unit(random: Long): Double = (random >>> 11).toDouble / (1L << 53)

  /** Uniform in [0, bound), from the high bits: `random * bound / 2^64`. */
  def below(random: Long, bound: Long): Long = Math.multiplyHigh(random >>> 1, bound << 1)
}
