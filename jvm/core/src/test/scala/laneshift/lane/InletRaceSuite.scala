package laneshift.lane

import scala.util.Try

import laneshift.testing.{Deep, DeepSuite, Fault, Faults, LimitedSuite}

/** A part of what `make prove` does with [[InletRace]]. */
class InletRaceSuite extends LimitedSuite with DeepSuite {
  override def room: Deep = Deep.Mutants

  test(
    "queue, recall flag and routing epoch, 30,000 times: every outcome is right, and the interesting ones happen"
  ) {
    val outcomes = InletRace.outcomes(thousands = 30)
    info(outcomes.map { case (what, times) => s"$what: $times" }.mkString(", "))
    assert(outcomes.keys.exists(_.startsWith("0 rows")) && outcomes.keys.exists(_.startsWith("4 rows")))
  }

  Seq(Fault.QueueNotRecalled, Fault.RemainderDropped, Fault.SettledUnderTheLane, Fault.RoutingNotSwitched)
    .foreach { fault =>
      test(s"races: notices ${fault.name}") {
        val noticed = Try(Faults.withFault(fault)(InletRace.outcomes(thousands = 5))).failed.toOption
        assert(noticed.nonEmpty, s"nobody noticed that ${fault.what}")
        info(noticed.get.getMessage)
      }
    }
}
