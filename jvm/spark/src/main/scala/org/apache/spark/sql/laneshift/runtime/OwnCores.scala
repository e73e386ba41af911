package org.apache.spark.sql.laneshift.runtime

import scala.util.Try

import org.apache.spark.{SparkConf, SparkContext, SparkEnv}
import org.apache.spark.executor.{CoarseGrainedExecutorBackend, ExecutorBackend}
import org.apache.spark.internal.config.EXECUTOR_CORES

/** How many cores this process has of Spark. The configuration says what is asked for: where it says nothing, a standalone worker
  * gives an executor all that it has. Spark tells each executor as it starts it, and the executor the driver.
  */
private[runtime] object OwnCores {

  def of(conf: SparkConf, env: SparkEnv): Int = {
    val master = conf.get("spark.master", "")
    if (master.startsWith("local") && !master.startsWith("local-cluster")) SparkContext.numDriverCores(master)
    else toldOf(env.executorBackend).getOrElse(conf.get(EXECUTOR_CORES))
  }

  /** An executor is told on its command line, and shows it to nobody. */
  private[runtime] def toldOf(backend: Option[ExecutorBackend]): Option[Int] = backend.collect {
    case executor: CoarseGrainedExecutorBackend =>
      Try {
        val field = classOf[CoarseGrainedExecutorBackend].getDeclaredField("cores")
        field.setAccessible(true)
        field.getInt(executor)
      }.toOption
  }.flatten
}
