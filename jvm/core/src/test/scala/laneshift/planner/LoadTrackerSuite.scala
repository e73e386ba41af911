package laneshift.planner

import laneshift.testing.LimitedSuite

class LoadTrackerSuite extends LimitedSuite {
  private val second = 1000000000L

  test("two updates make it warm; the first rate is taken as it is") {
    val tracker = new LoadTracker(2, windowNs = second)
    tracker.update(Array(10L, 0L), second)
    assert(!tracker.isWarm && tracker.loads.forall(_ == 0.0))
    tracker.update(Array(30L, 5L), 2 * second)
    assert(tracker.isWarm && tracker.loads.toSeq == Seq(20.0, 5.0))
  }

  test("rates are per second, whatever the time between updates") {
    val tracker = new LoadTracker(1, windowNs = second)
    tracker.update(Array(0L), second)
    tracker.update(Array(50L), second + second / 2)
    assert(tracker.loads(0) == 100.0)
  }

  test("after one window of a new rate, 1 - 1/e of the difference is taken in") {
    val tracker = new LoadTracker(1, windowNs = second)
    tracker.update(Array(0L), second)
    tracker.update(Array(100L), 2 * second)
    tracker.update(Array(100L), 3 * second)
    assert(math.abs(tracker.loads(0) - 100.0 / math.E) < 1e-9)
  }

  test("the smoothing does not depend on how often it is updated") {
    def loadAfter(steps: Int): Double = {
      val tracker = new LoadTracker(1, windowNs = 3 * second)
      tracker.update(Array(0L), second)
      tracker.update(Array(100L), 2 * second)
      (1 to steps).foreach { i =>
        tracker.update(Array(100L + 600L * i / steps), 2 * second + 6 * second * i / steps)
      }
      tracker.loads(0)
    }
    assert(math.abs(loadAfter(1) - loadAfter(6)) < 1e-6)
  }

  test("a counter below its last value starts anew") {
    val tracker = new LoadTracker(1, windowNs = second)
    tracker.update(Array(1000L), second)
    tracker.update(Array(10L), 2 * second)
    assert(tracker.loads(0) == 10.0)
  }

  test("after a restart a counter counts from zero, however far it has got") {
    val tracker = new LoadTracker(1, windowNs = second)
    tracker.update(Array(0L), second)
    tracker.update(Array(1000L), 2 * second)
    tracker.restart()
    tracker.update(Array(1500L), 3 * second)
    assert(math.abs(tracker.loads(0) - (1000 + 500 * (1 - 1 / math.E))) < 1e-9)
  }

  test("an update without any time passed loses no counts") {
    val tracker = new LoadTracker(1, windowNs = second)
    tracker.update(Array(0L), second)
    tracker.update(Array(60L), second)
    tracker.update(Array(100L), 2 * second)
    assert(tracker.loads(0) == 100.0)
  }

  test("neither counters nor loads are shared with the caller") {
    val tracker = new LoadTracker(1, windowNs = second)
    val counters = Array(0L)
    tracker.update(counters, second)
    counters(0) = 77L
    tracker.update(Array(100L), 2 * second)
    tracker.loads(0) = -1.0
    assert(tracker.loads(0) == 100.0)
  }
}
