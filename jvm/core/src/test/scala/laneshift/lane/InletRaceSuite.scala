package laneshift.lane

import laneshift.testing.{Deep, DeepSuite, LimitedSuite}

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
}
