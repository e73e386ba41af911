package org.apache.spark.sql.laneshift.runtime

import laneshift.testing.LimitedSuite

class TrialSuite extends LimitedSuite {

  test("it is judged once it has warmed up, by what was before") {
    val trial = new Trial[String](warmUp = 2L, firstRest = 10L)
    assert(!trial.isRunning && trial.before(0L).isEmpty && trial.mayBegin(0L))
    trial.begin(5L, "slow")
    assert(trial.isRunning && trial.before(6L).isEmpty && trial.before(7L).contains("slow"))
    trial.paid()
    assert(trial.isRunning && trial.isProven)
    trial.end()
    assert(!trial.isRunning && !trial.isProven && trial.mayBegin(8L), "an end is no verdict")
  }

  test("what has not paid rests, twice as long each time, six times at most, until it pays") {
    val trial = new Trial[Unit](warmUp = 0L, firstRest = 10L)
    def refused(now: Long): Long = {
      trial.begin(now, ())
      val until = trial.refuse(now)
      assert(!trial.isRunning && !trial.mayBegin(until - 1) && trial.mayBegin(until))
      until - now
    }
    assert((0L to 8L).map(i => refused(i * 1000L)) == Seq(10L, 20L, 40L, 80L, 160L, 320L, 640L, 640L, 640L))
    trial.begin(10000L, ())
    trial.paid()
    assert(refused(10001L) == 10L)
  }
}
