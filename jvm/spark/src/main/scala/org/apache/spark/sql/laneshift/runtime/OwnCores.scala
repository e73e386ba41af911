package org.apache.spark.sql.laneshift.runtime

import scala.util.Try

import org.apache.spark.{SparkConf, SparkContext, SparkEnv}
import org.apache.spark.executor.{CoarseGrainedExecutorBackend, ExecutorBackend}
import org.apache.spark.internal.config.{CPUS_PER_TASK, EXECUTOR_CORES}

/** How many cores this process has of Spark, as its tasks count them. The configuration says what is asked for: where it says
  * nothing, a standalone worker gives an executor all that it has. Spark tells each executor as it starts it, and the executor the
  * driver.
  */
private[laneshift] object OwnCores {

  def of(conf: SparkConf, env: SparkEnv): Int = {
    val master = conf.get("spark.master", "")
    val all =
      if (master.startsWith("local") && !master.startsWith("local-cluster"))
        SparkContext.numDriverCores(master)
      else toldOf(env.executorBackend).getOrElse(conf.get(EXECUTOR_CORES))
    forTasks(all, conf)
  }

  /** A task that takes several cores (spark.task.cpus), and a lane, which does what a task does, count as one. */
  def forTasks(cores: Int, conf: SparkConf): Int = (BigDecimal(cores) / conf.get(CPUS_PER_TASK)).toInt

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
