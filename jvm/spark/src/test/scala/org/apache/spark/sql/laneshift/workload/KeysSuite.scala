package org.apache.spark.sql.laneshift.workload

import org.apache.commons.math3.distribution.ChiSquaredDistribution

import laneshift.testing.LimitedSuite

class KeysSuite extends LimitedSuite {

  /** Whether the counts fit the law at the level of one in a million. The draws are fixed, so this is not
    * flaky.
    */
  private def fits(counts: Array[Long], law: Array[Double]): Boolean = {
    val total = counts.sum.toDouble
    // Cells with fewer than 10 expected are taken together.
    val (large, small) = counts.zip(law).partition(_._2 * total >= 10)
    val cells = large ++ Option.when(small.nonEmpty)((small.map(_._1).sum, small.map(_._2).sum))
    val chi2 = cells.map { case (n, p) => math.pow(n - p * total, 2) / (p * total) }.sum
    cells.length == 1 || chi2 < new ChiSquaredDistribution(
      cells.length - 1.0
    ).inverseCumulativeProbability(1 - 1e-6)
  }

  private def draw(keys: Int, skew: Double, draws: Int): Array[Long] = {
    val counts = new Array[Long](keys)
    val table = ZipfTable.of(keys, skew)
    for (i <- 0L until draws) counts(table.rank(Mixer.mix(i * Mixer.Gamma))) += 1
    counts
  }

  for (
    (keys, skew) <- Seq(1 -> 1.0, 2 -> 0.0, 10 -> 0.5, 1000 -> 0.0, 10000 -> 0.5, 10000 -> 1.0, 300 -> 3.0)
  )
    test(s"ranks of $keys keys with skew $skew follow Zipf's law") {
      val law = ZipfTable.probabilities(keys, skew)
      assert(math.abs(law.sum - 1) < 1e-9)
      if (keys > 1) assert(math.abs(law(0) / law(1) - math.pow(2, skew)) < 1e-9)
      assert(fits(draw(keys, skew, 2000000), law))
    }

  test("the check of the law can fail") {
    assert(!fits(draw(10000, 0.5, 2000000), ZipfTable.probabilities(10000, 0.52)))
  }

  test("a shuffle is a permutation") {
    for (keys <- Seq(1, 2, 3, 4, 5, 7, 8, 9, 100, 1000, 1024, 1025, 65537); index <- 1L to 3L) {
      val shuffle = new KeyShuffle(keys, seed = 42, index)
      assert((0 until keys).map(shuffle.key).sorted == (0 until keys), s"of $keys keys")
    }
  }

  test("shuffles place the hottest key uniformly") {
    val keys = 100
    val counts = new Array[Long](keys)
    for (index <- 1L to 20000L) counts(new KeyShuffle(keys, seed = 3, index).key(0)) += 1
    assert(fits(counts, Array.fill(keys)(1.0 / keys)))
  }

  test("key shuffles give the same frequencies to other keys, at the times that omega says") {
    // 6 shuffles a minute: one every 10 s, of 100,000 rows each.
    val omega = 6.0
    val spec = WorkloadSpec(
      keys = 1000,
      zipf = 1.0,
      omega,
      payloadBytes = 0,
      RateFunctions.constant(10000),
      partitions = 1,
      seed = 5,
      startMicros = 0,
      totalRows = WorkloadSpec.Endless
    )
    def counts(spec: WorkloadSpec): Seq[Array[Long]] = {
      val rows = new WorkloadRows(spec, 0)
      (0L until 4L).map { slot =>
        val n = new Array[Long](1000)
        for (seq <- slot * 100000 until (slot + 1) * 100000)
          n(rows(seq, rows.dueMicros(seq)).getLong(0).toInt) += 1
        n
      }
    }
    val shuffled = counts(spec)
    val still = counts(spec.copy(omega = 0))
    assert(shuffled.head.toSeq == still.head.toSeq)
    val hottest = shuffled.map(_.zipWithIndex.sorted.reverse.take(5).map(_._2).toSeq)
    assert(hottest.distinct.size == 4)
    for (slot <- 0 until 4) assert(shuffled(slot).sorted.toSeq == still(slot).sorted.toSeq, s"in slot $slot")
  }
}
