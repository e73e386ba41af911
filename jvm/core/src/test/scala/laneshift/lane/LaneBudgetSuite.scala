package laneshift.lane

import laneshift.testing.LimitedSuite

class LaneBudgetSuite extends LimitedSuite {

  test("whoever asks gets what is free, and what comes back is free again") {
    val budget = new LaneBudget(5)
    assert(budget.take(3) == 3 && budget.take(3) == 2 && budget.take(1) == 0)
    assert(budget.free == 0)
    budget.give(2)
    assert(budget.free == 2 && budget.take(7) == 2)
    assert(budget.take(0) == 0 && budget.take(-4) == 0)
  }

  test("more cannot come back than was taken") {
    val budget = new LaneBudget(5)
    budget.take(1)
    assert(intercept[IllegalArgumentException](budget.give(2)).getMessage.contains("2 lanes come back of 1"))
    intercept[IllegalArgumentException](new LaneBudget(-1))
  }
}
