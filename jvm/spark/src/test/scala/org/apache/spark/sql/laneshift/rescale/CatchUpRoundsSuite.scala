package org.apache.spark.sql.laneshift.rescale

import laneshift.testing.LimitedSuite

/** When a query may wait for what its new stores still lack. */
class CatchUpRoundsSuite extends LimitedSuite {
  private val long = 4 * CatchUpRounds.ShortNs

  /** After how many rounds it is near, of batches in each; all rounds take long. */
  private def after(batches: Iterator[Long]): Int = {
    val rounds = new CatchUpRounds
    batches.map(rounds.isNear(_, long)).indexOf(true) + 1
  }

  test("a round that is short, or of one batch or none, is as near as it gets") {
    assert(new CatchUpRounds().isNear(7L, CatchUpRounds.ShortNs - 1))
    assert(!new CatchUpRounds().isNear(7L, long))
    assert(new CatchUpRounds().isNear(1L, long) && new CatchUpRounds().isNear(0L, long))
  }

  test("on a machine that has no time for it, rounds that bring it no nearer are few") {
    // Each round takes as long as three batches.
    assert(after(Iterator.continually(3L)) == 3)
    assert(after(Iterator(9L, 4L, 3L, 3L, 4L, 4L)) == 5)
  }

  test("rounds that do bring it nearer go on") {
    assert(after(Iterator(40L, 20L, 10L, 5L, 3L, 2L, 1L)) == 7)
    assert(after(Iterator.iterate(90L)(_ - 1)) == CatchUpRounds.Most)
  }
}
