package laneshift.ids

import laneshift.testing.LimitedSuite

class IdsSuite extends LimitedSuite {

  test("epochs are ordered by age") {
    assert(Seq(Epoch.first.next, Epoch.first).min == Epoch.first)
  }

  test("an epoch past the last one is an error, not a restart from the smallest") {
    intercept[ArithmeticException](Epoch(Long.MaxValue).next)
  }
}
