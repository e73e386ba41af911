package laneshift.testing

import org.scalacheck.Gen
import org.scalacheck.rng.Seed
import org.scalatest.Assertions.withClue

/** The numbers that tests draw from: the same in every run, so that a commit has one outcome. The environment variable
  * LANESHIFT_SEED has others drawn; a failure names its own.
  */
object Seeds {
  val first: Long = sys.env.get("LANESHIFT_SEED").filter(_.nonEmpty).fold(1L)(_.toLong)

  /** Checks so many values of `values`, from small ones to large ones. */
  def forEach[A](values: Gen[A], times: Int = 100)(check: A => Any): Unit = (0 until times).foreach { i =>
    val drawn = values(Gen.Parameters.default.withSize(i * 100 / times), Seed(first * 1000003L + i))
    drawn.foreach(value => withClue(s"LANESHIFT_SEED=$first, value $i: $value: ")(check(value)))
  }
}
