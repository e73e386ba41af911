package org.apache.spark.sql.laneshift.plan

import org.apache.spark.sql.laneshift.runtime.BatchLoad

import laneshift.testing.LimitedSuite

/** Batches of one operator, one after the other: partition 1 is the hot one. */
class SpreadTrialSuite extends LimitedSuite {

  /** What comes of `batches` batches whose hottest key has such a share and that take so many rows a second, with the state or apart. */
  private def run(trial: SpreadTrial, batches: Range, lanes: Int = 8, busiest: Double = 1.0)(
      hottest: Int => Double,
      rows: Boolean => Double
  ): Seq[Boolean] = batches.map { batch =>
    val on = trial.decide(batch.toLong, told(trial, batch - 1, lanes, busiest, hottest(batch - 1), rows))
    last = on
    on
  }

  /** Whether the batch before was apart. */
  private var last = false

  private def told(
      trial: SpreadTrial,
      batch: Int,
      lanes: Int,
      busiest: Double,
      hottest: Double,
      rows: Boolean => Double
  ): Map[Int, BatchLoad] =
    if (batch < 0) Map.empty
    else
      Seq(0 -> 0.01, 1 -> hottest)
        .map { case (index, share) =>
          index -> BatchLoad(batch.toLong, last, 10000L, rows(last), share, if (last) 0.3 else busiest, lanes)
        }
        .filter(_._2.matters)
        .toMap

  private def fresh(startup: Int = 1): SpreadTrial = {
    last = false
    new SpreadTrial(startup)
  }

  test("a hot key that holds its partition up: apart from the next batch on, as long as it is hot") {
    val trial = fresh()
    val on =
      run(trial, 0 until 40)(batch => if (batch < 20) 0.6 else 0.02, apart => if (apart) 5000 else 1500)
    assert(on == Seq(false) ++ Seq.fill(22)(true) ++ Seq.fill(17)(false))
    assert(trial.reason.contains("no key is hot any more"))
  }

  test("never where no key is hot, no lane is full, or there is one lane only") {
    def never(lanes: Int, busiest: Double, hottest: Double): Unit = {
      val on = run(fresh(), 0 until 40, lanes, busiest)(_ => hottest, _ => 1500)
      assert(!on.contains(true))
    }
    never(lanes = 8, busiest = 1.0, hottest = 0.1)
    never(lanes = 8, busiest = 0.5, hottest = 0.6)
    never(lanes = 1, busiest = 1.0, hottest = 1.0)
  }

  test("the few rows of a first batch are not a hot key") {
    def bound(rows: Long, hottest: Double): Boolean =
      BatchLoad(1L, isApart = false, rows, 5.0, hottest, busiest = 1.0, lanes = 8).isBound
    assert(!bound(1, 1.0) && !bound(3, 1.0) && !bound(20, 0.3) && !bound(1000, 0.19))
    assert(bound(10, 1.0) && bound(50, 0.6) && bound(1000, 0.25))
  }

  test("what does not pay ends at once and is tried again after longer and longer rests") {
    val on = run(fresh(), 0 until 2000)(_ => 0.6, _ => 1500)
    val begins = on.indices.filter(i => on(i) && (i == 0 || !on(i - 1)))
    assert(begins.zip(begins.tail).map { case (a, b) => b - a }.sliding(2).forall(p =>
      p.size < 2 || p(1) >= p.head
    ))
    // A batch to start in, one to be measured.
    assert(on.count(identity) == 2 * begins.size && begins.size >= 4 && begins.size <= 7, begins)
  }

  test("where batches are long the first one counts") {
    val on = run(fresh(startup = 0), 0 until 6)(_ => 0.6, _ => 1500)
    assert(on == Seq(false, true, false, false, false, false))
  }

  test("what was told long ago is told once") {
    val trial = fresh()
    val load = Map(1 -> BatchLoad(3L, isApart = false, 10000L, 1500, 0.6, 1.0, 8))
    assert(trial.decide(4L, load))
    // Nothing new comes: it neither ends nor is it judged.
    (5L to 50L).foreach(batch => assert(trial.decide(batch, load)))
    last = true
  }
}
