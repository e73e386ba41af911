package org.apache.spark.sql.laneshift.driver

import laneshift.testing.LimitedSuite

/** What autoscalers tell of their decisions. */
class DecisionsSuite extends LimitedSuite {

  test("a change says on which other executors lanes are, if there are any") {
    val change = LaneChange("orders:0.1", 1, 5, "load", "3 on executor 2")
    val words = "orders:0.1: 1 to 5 lanes"
    assert(change.what == s"$words, 3 on executor 2")
    assert(change.copy(elsewhere = "").what == words)
    // Event logs of before there were such lanes.
    assert(change.copy(elsewhere = null).what == words)
  }
}
