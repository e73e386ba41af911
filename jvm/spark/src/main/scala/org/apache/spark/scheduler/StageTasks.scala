package org.apache.spark.scheduler

import org.apache.spark.SparkContext
import org.apache.spark.internal.config.{CORES_MAX, CPUS_PER_TASK, EXECUTOR_CORES, EXECUTOR_INSTANCES}

/** The tasks that are not over, as Spark's scheduler has them now. Who counts events instead is wrong for ever when Spark drops one.
  * In this package because the scheduler's counts are private to it.
  */
private[spark] object StageTasks {

  private def of[T](sc: SparkContext, otherwise: T)(read: TaskSchedulerImpl => T): T =
    sc.taskScheduler match {
      case scheduler: TaskSchedulerImpl if scheduler.rootPool != null =>
        scheduler.synchronized(read(scheduler))
      case _ => otherwise
    }

  /** How many run, by executor. The scheduler's pool does not know: a Real-time query's stages are not in it. */
  def running(): Map[String, Int] = SparkContext.getActive.filterNot(_.isStopped)
    .fold(Map.empty[String, Int])(of(_, Map.empty[String, Int])(_.runningTasksByExecutors))

  /** Tasks that Spark runs at a time, on all executors. */
  def slots(sc: SparkContext): Int =
    sc.maxNumConcurrentTasks(sc.resourceProfileManager.defaultResourceProfile)

  /** Those of the executors that the application has asked for, as far as it says: they may be on their way. */
  def asked(sc: SparkContext): Int = {
    val ofInstances = sc.conf.get(EXECUTOR_INSTANCES).map(_.toLong * sc.conf.get(EXECUTOR_CORES))
    val cores = math.max(ofInstances.getOrElse(0L), sc.conf.get(CORES_MAX).getOrElse(0).toLong)
    math.min(Int.MaxValue, cores / math.max(1, sc.conf.get(CPUS_PER_TASK).toInt)).toInt
  }

  /** As Spark counts when it admits a Real-time batch: tasks that wait for a slot have it already. */
  def outstanding(sc: SparkContext): Int = of(sc, 0)(
    _.outstandingTasksForOtherWorkInProfile(sc.resourceProfileManager.defaultResourceProfile.id, Set.empty)
  )
}
