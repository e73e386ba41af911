package org.apache.spark.sql.laneshift.runtime

import org.apache.spark.SparkEnv
import org.apache.spark.executor.CoarseGrainedExecutorBackend
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.rpc.RpcEnv
import org.apache.spark.sql.laneshift.ElasticSession

import laneshift.testing.LimitedSuite

/** What a process knows of its own cores. */
class OwnCoresSuite extends LimitedSuite with ElasticSession {

  private def executor(cores: Int) = new CoarseGrainedExecutorBackend(
    null.asInstanceOf[RpcEnv],
    "spark://driver",
    "1",
    "host",
    "host",
    cores,
    null.asInstanceOf[SparkEnv],
    None,
    null.asInstanceOf[ResourceProfile]
  )

  test("an executor has the cores with which it was started, whatever the configuration asks for") {
    assert(OwnCores.toldOf(Some(executor(cores = 7))).contains(7))
    assert(OwnCores.toldOf(None).isEmpty)
    assert(OwnCores.toldOf(Some((_: Long, _, _) => ())).isEmpty)
  }

  test("in local mode that is what the master says") {
    val conf = spark.sparkContext.getConf.clone()
    assert(OwnCores.of(conf.set("spark.master", "local[5]"), SparkEnv.get) == 5)
    assert(OwnCores.of(conf.set("spark.master", "spark://host:7077"), SparkEnv.get) == 1)
    assert(OwnCores.of(conf.set("spark.executor.cores", "3"), SparkEnv.get) == 3)
    assert(OwnCores.of(conf.set("spark.master", "local[8]").set("spark.task.cpus", "3"), SparkEnv.get) == 2)
  }
}
