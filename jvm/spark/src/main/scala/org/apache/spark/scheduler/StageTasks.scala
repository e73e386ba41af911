package org.apache.spark.scheduler

import java.util.Properties

import org.apache.spark.SparkContext

/** The tasks of one stage that has some which are not over, as Spark's scheduler has them now. Who counts events instead is wrong for
  * ever when Spark drops one. In this package because the scheduler's counts are private to it.
  *
  * @param of the stage, and its attempt
  * @param waiting for a core
  * @param running the executors of those that run
  */
private[spark] final case class StageTasks(
    of: (Int, Int),
    properties: Option[Properties],
    waiting: Int,
    running: Seq[String]
) {

  /** Those that run or wait. */
  def wanted: Int = waiting + running.size

  /** Whether the job's thread had such a property. */
  def has(property: String): Boolean = properties.exists(_.containsKey(property))
}

private[spark] object StageTasks {

  private def of[T](sc: SparkContext, otherwise: T)(read: TaskSchedulerImpl => T): T =
    sc.taskScheduler match {
      case scheduler: TaskSchedulerImpl if scheduler.rootPool != null =>
        scheduler.synchronized(read(scheduler))
      case _ => otherwise
    }

  def now(): Seq[StageTasks] = SparkContext.getActive.filterNot(_.isStopped).toSeq.flatMap { sc =>
    of(sc, Seq.empty[StageTasks]) { scheduler =>
      scheduler.rootPool.getSortedTaskSetQueue.toSeq.map { tasks =>
        val running = tasks.runningTasksSet
        StageTasks(
          (tasks.stageId, tasks.taskSet.stageAttemptId),
          Option(tasks.taskSet.properties),
          if (tasks.isZombie) 0 else math.max(0, tasks.numTasks - tasks.tasksSuccessful - running.size),
          running.toSeq.flatMap(scheduler.taskIdToExecutorId.get)
        )
      }
    }
  }

  /** Tasks that Spark runs at a time, on all executors. */
  def slots(sc: SparkContext): Int =
    sc.maxNumConcurrentTasks(sc.resourceProfileManager.defaultResourceProfile)

  /** As Spark counts when it admits a Real-time batch: tasks that wait for a slot have it already. */
  def outstanding(sc: SparkContext): Int = of(sc, 0)(
    _.outstandingTasksForOtherWorkInProfile(sc.resourceProfileManager.defaultResourceProfile.id, Set.empty)
  )
}
