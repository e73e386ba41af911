package laneshift.lane.explore

import scala.util.Try

import laneshift.testing.LimitedSuite

class DealsScheduleSuite extends LimitedSuite {
  private def broken(seeds: Range): Option[(Int, Throwable)] =
    seeds.iterator.flatMap(seed =>
      Try(new DealsSchedule(seed.toLong).run()).failed.toOption.map(seed -> _)
    ).nextOption()

  test("outputs come in the order of the rows, all of them, whoever goes on when") {
    broken(0 until 50000).foreach { case (seed, error) =>
      fail(s"schedule $seed: ${error.getMessage}", error)
    }
  }
}
