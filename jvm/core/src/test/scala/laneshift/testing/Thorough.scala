package laneshift.testing

import org.scalatest.Tag

/** Tests that only `make test-all` runs: more cases of what `make test` has some of. */
object Thorough extends Tag("laneshift.Thorough") {

  /** The tag for all but the chosen ones of a suite's cases. */
  def unless(chosen: Boolean): Seq[Tag] = if (chosen) Nil else Seq(Thorough)
}
