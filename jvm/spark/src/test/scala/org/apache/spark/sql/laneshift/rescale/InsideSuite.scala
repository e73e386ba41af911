package org.apache.spark.sql.laneshift.rescale

import laneshift.testing.LimitedSuite

/** What a take-over has to tell a query's execution is under the names that it is looked for by. */
class InsideSuite extends LimitedSuite {
  test("this Spark has them")(Inside.require())

  test("another one is refused when a rescale is asked for") {
    val e = intercept[NotRescalable](Inside.require(execution = classOf[Object]))
    assert(e.getMessage.contains("no field currentStateStoreCkptId"))
    intercept[NotRescalable](Inside.require(of = classOf[Object]))
  }
}
