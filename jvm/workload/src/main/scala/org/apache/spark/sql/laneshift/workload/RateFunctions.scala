package org.apache.spark.sql.laneshift.workload

/** The rate functions of the option `rate`, as schedules. Times in microseconds, rates in rows per second of
  * the source.
  */
private[workload] object RateFunctions {

  private val Second = 1000000L

  /** Slots per period of the sine: each has the sine's own mean, so that the counts are exact at its edges.
    */
  private val SineSlots = 1000

  /** Periods after which the random rate repeats: long enough to look endless, short enough to look up. */
  private[workload] val RandomSlots = 4096

  def constant(rate: Double): RateSchedule = new RateSchedule(Array(0L, Second), Array(rate))

  /** `rate * (1 + amplitude * sin(2 pi t / period))`. */
  def sine(rate: Double, amplitude: Double, period: Long): RateSchedule = {
    val slots = Math.min(SineSlots.toLong, period).toInt
    val edges = Array.tabulate(slots + 1)(i => Math.round(period.toDouble * i / slots))
    def wave(t: Long): Double =
      -Math.cos(2 * Math.PI * t / period) * period / (2 * Math.PI) // integral of the sine
    val rates = Array.tabulate(slots) { i =>
      val mean = (wave(edges(i + 1)) - wave(edges(i))) / (edges(i + 1) - edges(i))
      Math.max(0.0, rate * (1 + amplitude * mean))
    }
    new RateSchedule(edges, rates)
  }

  /** (rate, duration) one after the other, then from the first again. */
  def stages(stages: Seq[(Double, Long)]): RateSchedule =
    new RateSchedule(stages.map(_._2).scanLeft(0L)(Math.addExact(_, _)).toArray, stages.map(_._1).toArray)

  /** A new rate each period, uniform in `rate * (1 - amplitude)` to `rate * (1 + amplitude)`. */
  def random(rate: Double, amplitude: Double, period: Long, seed: Long): RateSchedule = {
    val stream = Mixer.stream(seed, Long.MaxValue - 1) // partitions use the indexes from 0
    slotted(
      Array.tabulate(RandomSlots) { i =>
        rate * (1 + amplitude * (2 * Mixer.unit(Mixer.mix(stream + i * Mixer.Gamma)) - 1))
      },
      period
    )
  }

  /** One rate per period, in the order of the trace, then from its start again. */
  def trace(rates: Array[Double], period: Long): RateSchedule = slotted(rates, period)

  private def slotted(rates: Array[Double], period: Long): RateSchedule =
    new RateSchedule(Array.tabulate(rates.length + 1)(i => Math.multiplyExact(i.toLong, period)), rates)
}
