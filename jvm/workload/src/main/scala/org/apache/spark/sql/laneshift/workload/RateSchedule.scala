package org.apache.spark.sql.laneshift.workload

/** When each row of the source is due: a rate that is constant within slots of time and repeats after the last
  * one. The rows by time t number the integral of the rate; row n is due where that integral reaches n. All in
  * microseconds from the start.
  *
  * @param edges slot boundaries in microseconds, from 0; one more than there are slots
  * @param rates rows per second in each slot
  */
private[workload] final class RateSchedule(val edges: Array[Long], val rates: Array[Double])
    extends Serializable {

  private[workload] val slots = rates.length

  /** Rows from the cycle's start to each edge. */
  private[workload] val rowsAt: Array[Double] = {
    val sums = new Array[Double](slots + 1)
    for (i <- 0 until slots) sums(i + 1) = sums(i) + (edges(i + 1) - edges(i)) * rates(i) / 1e6
    sums
  }
  private[workload] val cycleMicros = edges(slots)
  private[workload] val cycleRows = rowsAt(slots)
  private[workload] val lastSlot = rates.lastIndexWhere(_ > 0)
  require(lastSlot >= 0 && cycleRows > 0, "a rate that is never above zero")

  /** Microseconds after the start at which row `row` is due. Never decreases with `row`. */
  def dueMicros(row: Long): Long = cursor().dueMicros(row)

  /** How many rows are due by `micros`, that is, have `dueMicros(row) <= micros`. */
  def rowsBy(micros: Long): Long =
    if (micros < 0) 0L
    else {
      val cycle = micros / cycleMicros
      val offset = micros - cycle * cycleMicros
      val slot = RateSchedule.lastNotAbove(edges, offset, slots - 1)
      var n = (cycle * cycleRows + rowsAt(slot) + (offset - edges(slot)) * rates(slot) / 1e6).toLong
      val at = cursor()
      while (n > 0 && at.dueMicros(n - 1) > micros) n -= 1 // the estimate is off by rounding at most
      while (at.dueMicros(n) <= micros) n += 1
      n
    }

  /** A stateful reader of `dueMicros`, quick for rows in order. Gives the same answers wherever it starts. */
  def cursor(): RateCursor = new RateCursor(this)
}

private[workload] final class RateCursor(schedule: RateSchedule) {
  import schedule._

  private var cycleStart = 0L // microseconds
  private var cycleFrom = 0.0 // rows before this cycle
  private var cycleUntil = 0.0 // rows before the next one
  private var slot = 0
  private var slotFrom = 0.0
  private var slotUntil = 0.0
  private var microsPerRow = 0.0

  def dueMicros(row: Long): Long = {
    val n = row.toDouble
    if (!(n >= cycleFrom && n < cycleUntil)) seekCycle(n)
    val inCycle = n - cycleFrom
    if (!(inCycle >= slotFrom && inCycle < slotUntil)) seekSlot(inCycle)
    val inSlot = ((inCycle - slotFrom) * microsPerRow).toLong
    cycleStart + Math.min(edges(slot) + inSlot, edges(slot + 1))
  }

  // Decided by comparing rows with products only, so that it does not depend on where the cursor was.
  private def seekCycle(n: Double): Unit = {
    var cycle = (n / cycleRows).toLong
    while ((cycle + 1) * cycleRows <= n) cycle += 1
    while (cycle * cycleRows > n) cycle -= 1
    cycleStart = cycle * cycleMicros
    cycleFrom = cycle * cycleRows
    cycleUntil = (cycle + 1) * cycleRows
  }

  private def seekSlot(inCycle: Double): Unit = {
    slot = RateSchedule.lastNotAbove(rowsAt, inCycle, lastSlot)
    slotFrom = rowsAt(slot)
    slotUntil = rowsAt(slot + 1)
    microsPerRow = 1e6 / rates(slot)
  }
}

private[workload] object RateSchedule {

  /** The last index up to `max` whose entry is <= x, in an ascending array. Skips slots without rows, which
    * share an entry.
    */
  private[workload] def lastNotAbove(sorted: Array[Double], x: Double, max: Int): Int =
    search(max)(sorted(_) <= x)

  private[workload] def lastNotAbove(sorted: Array[Long], x: Long, max: Int): Int =
    search(max)(sorted(_) <= x)

  private def search(max: Int)(fits: Int => Boolean): Int = {
    var low = 0
    var high = max
    while (low < high) {
      val middle = (low + high + 1) >>> 1
      if (fits(middle)) low = middle else high = middle - 1
    }
    low
  }
}
