package org.apache.spark.sql.laneshift.api

import laneshift.testing.LimitedSuite

class LanesWishSuite extends LimitedSuite {

  test("Wishes are read in their order, with and without lanes elsewhere") {
    val read = LanesWish.read(
      """[{"query": "q", "operator": 0, "partition": 3, "lanes": 2, "elsewhere": {"7": 1, "8": 0}},
        | {"query": "q", "operator": 1, "partition": -1, "lanes": 4, "elsewhere": null},
        | {"query": "q", "operator": 1, "partition": 0, "lanes": 1}]""".stripMargin
    )
    assert(
      read == Seq(
        LanesWish("q", 0L, 3, 2, Some(Map("7" -> 1))),
        LanesWish("q", 1L, -1, 4, None),
        LanesWish("q", 1L, 0, 1, None)
      )
    )
    assert(LanesWish.read("[]").isEmpty)
  }

  test("What is no wish is refused") {
    Seq(
      "{}",
      """[{"query": "q"}]""",
      """[{"query": "q", "operator": "0", "partition": 0, "lanes": 1}]"""
    ).foreach { text =>
      assertThrows[IllegalArgumentException](LanesWish.read(text))
    }
  }
}
