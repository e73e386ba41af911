package org.apache.spark.sql.laneshift.runtime

import org.scalatest.funsuite.AnyFunSuite

class ElasticRuntimeSuite extends AnyFunSuite {

  test("a task without the plugin is told so; one that outlives it, that it has stopped") {
    val process = new ElasticRuntime.Holder
    def error() = intercept[IllegalStateException](process.get).getMessage
    assert(error().contains("must be in spark.plugins"))
    val first = process.start(cores = 2, lanes = 8)
    assert(process.get eq first)
    assert(intercept[IllegalArgumentException](process.start(2, 8)).getMessage.contains("already"))
    process.stop()
    assert(error().contains("has stopped in this process") && !error().contains("spark.plugins"))
    val second = process.start(cores = 2, lanes = 8)
    try assert((process.get eq second) && (second ne first))
    finally process.stop()
  }
}
