package org.apache.spark.sql.laneshift

import org.scalatest.BeforeAndAfterEach

import org.apache.spark.sql.laneshift.driver.AutoscalerClaims

import laneshift.testing.LimitedSuite

class AutoscalerClaimsSuite extends LimitedSuite with BeforeAndAfterEach {
  private var now = 0L
  private var all = new AutoscalerClaims

  override def beforeEach(): Unit = all = new AutoscalerClaims(() => now)

  private def goesBy(seconds: Double): Unit = now += (seconds * 1e9).toLong

  private def claims(autoscaler: String, runId: String, seconds: Double = 60.0): Boolean =
    all.claim(autoscaler, "static", runId, seconds).isRight

  test("a query has one autoscaler, whether it was claimed alone or with all") {
    assert(claims("a", "one") && claims("b", "two"))
    assert(!claims("c", "one") && !claims("c", ""))
    all.release("a")
    assert(claims("c", "one"))
    assert(!claims("b", ""), "c drives one of them")
    all.release("c")
    assert(claims("b", ""), "its own claim is in nobody's way")
    assert(!claims("a", "three"))
  }

  test("a claim that is not renewed lapses, and one that is does not") {
    assert(claims("a", "", 0.2))
    val (held, left) = all.claim("b", "craa", "", 60.0).swap.getOrElse(fail("two autoscalers"))
    assert(held.autoscaler == "a" && held.policy == "static" && left == 0.2)
    goesBy(0.1)
    assert(claims("a", "", 60.0))
    goesBy(0.15)
    assert(!claims("b", ""))
    assert(claims("a", "", 0.01))
    goesBy(0.01)
    assert(claims("b", ""))
  }
}
