package laneshift.lane.explore

import scala.util.Try

import laneshift.testing.{Fault, Faults, LimitedSuite}

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

  DealsScheduleSuite.Finds.foreach { fault =>
    test(s"explored deals: notices ${fault.name}") {
      val found = Faults.withFault(fault)(broken(0 until 5000))
      assert(found.nonEmpty, s"nobody noticed that ${fault.what}")
      info(s"schedule ${found.get._1}: ${found.get._2.getMessage.take(120)}")
    }
  }
}

object DealsScheduleSuite {
  import Fault._

  /** The planted bugs of dealt rows. */
  val Finds: Seq[Fault] = Seq(
    DealsOutOfOrder,
    NextDealWaits,
    NextDealNotWoken,
    FlushForgotten,
    AnsweredUnput,
    TwoPullers,
    PullNotPassedOn,
    TakenUntold,
    AnsweredEarly
  )
}
