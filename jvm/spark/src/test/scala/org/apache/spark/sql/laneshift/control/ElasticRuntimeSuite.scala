package org.apache.spark.sql.laneshift.control

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkConf

class ElasticRuntimeSuite extends AnyFunSuite {
  private val conf = new SparkConf(false).set("spark.master", "local[2]")

  test(
    "a task that outlives its executor's plugins is told that they have stopped, not that they are missing"
  ) {
    val first = ElasticRuntime.start(conf)
    assert(ElasticRuntime.get eq first)
    ElasticRuntime.stop()
    val error = intercept[IllegalStateException](ElasticRuntime.get)
    assert(error.getMessage.contains("has stopped in this process"), error.getMessage)
    assert(!error.getMessage.contains("spark.plugins"), error.getMessage)
    val second = ElasticRuntime.start(conf)
    try assert((ElasticRuntime.get eq second) && (second ne first))
    finally ElasticRuntime.stop()
  }
}
