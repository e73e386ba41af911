package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.laneshift.spec.RecentlyUsed

/** Draws ranks 0 <= r < n with probability proportional to 1 / (r + 1)^skew, in constant time: the alias
  * method of Walker in Vose's form (M. D. Vose, IEEE Trans. Software Eng. 17(9), 1991). Eight bytes a rank.
  *
  * @param threshold per cell, the share of the cell that is its own, in units of 2^-31
  * @param alias per cell, the rank that owns the rest
  */
private[workload] final class ZipfTable private (threshold: Array[Int], alias: Array[Int]) {

  val size: Int = threshold.length

  /** The rank that 64 random bits stand for: the product's high half names the cell, its low half tosses the
    * coin.
    */
  def rank(random: Long): Int = {
    val bits = random >>> 1
    val cell = Math.multiplyHigh(bits, size.toLong << 1).toInt
    val coin = ((bits * (size.toLong << 1)) >>> 33).toInt
    if (coin < threshold(cell)) cell else alias(cell)
  }
}

private[workload] object ZipfTable {

  private val Kept = 4
  private val cache = new RecentlyUsed[(Int, Double), ZipfTable](Kept)

  /** The table of (keys, skew), built once per JVM and shared by its tasks; the few most recently used are
    * kept.
    */
  def of(keys: Int, skew: Double): ZipfTable = cache.synchronized {
    cache.computeIfAbsent((keys, skew), _ => build(keys, skew))
  }

  /** Probability of each rank: the law that the table follows. */
  def probabilities(keys: Int, skew: Double): Array[Double] = {
    val weights = Array.tabulate(keys)(r => math.pow(r + 1.0, -skew))
    val total = weights.sum
    weights.map(_ / total)
  }

  private def build(keys: Int, skew: Double): ZipfTable = {
    val share = probabilities(keys, skew) // scaled to mean 1 here; a cell gives what it lacks to another
    for (i <- share.indices) share(i) *= keys
    val threshold = Array.fill(keys)(Int.MaxValue)
    val alias = Array.tabulate(keys)(identity)
    val small = new Array[Int](keys)
    val large = new Array[Int](keys)
    var smalls, larges = 0
    for (i <- share.indices)
      if (share(i) < 1) { small(smalls) = i; smalls += 1 }
      else { large(larges) = i; larges += 1 }
    while (smalls > 0 && larges > 0) {
      smalls -= 1
      val s = small(smalls)
      val l = large(larges - 1)
      threshold(s) = (share(s) * (1L << 31)).toInt
      alias(s) = l
      share(l) -= 1 - share(s)
      if (share(l) < 1) { larges -= 1; small(smalls) = l; smalls += 1 }
    }
    new ZipfTable(threshold, alias) // what is left over by rounding keeps its whole cell
  }
}
