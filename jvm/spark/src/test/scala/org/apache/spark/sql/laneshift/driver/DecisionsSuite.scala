package org.apache.spark.sql.laneshift.driver

import laneshift.testing.LimitedSuite

/** What schedulers tell of their decisions. */
class DecisionsSuite extends LimitedSuite {
  private def told(change: String): LaneChange = {
    val decisions = new Decisions(_ => ())
    decisions.add(
      s"""{"time_ms": 7, "executor": "", "policy": "laneshift", "changes": [$change], "notes": [],
        |"applied": true, "error": null}""".stripMargin
    )
    decisions.newest(1).head.changes.head
  }

  test("a change says on which other executors lanes are, if there are any") {
    val change = """"partition": "orders:0.1", "before": 1, "after": 5, "reason": "load""""
    val words = "orders:0.1: 1 to 5 lanes"
    assert(told(s"""{$change, "elsewhere": "3 on executor 2"}""").what == s"$words, 3 on executor 2")
    assert(told(s"""{$change, "elsewhere": ""}""").what == words)
    // Schedulers and event logs of before there were such lanes.
    assert(told(s"{$change}").what == words)
    assert(told(s"{$change}").copy(elsewhere = null).what == words)
  }
}
