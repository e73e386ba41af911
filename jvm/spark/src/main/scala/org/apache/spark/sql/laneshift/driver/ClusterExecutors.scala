package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.{MapOutputTrackerMaster, SparkContext, SparkEnv}
import org.apache.spark.internal.config.{EXECUTOR_DECOMMISSION_FORCE_KILL_TIMEOUT, EXECUTOR_INSTANCES}
import org.apache.spark.scheduler.{
  ExecutorDecommissionInfo,
  SparkListener,
  SparkListenerJobEnd,
  SparkListenerJobStart
}
import org.apache.spark.scheduler.cluster.{CoarseGrainedSchedulerBackend, SchedulerBackendUtils}
import org.apache.spark.sql.laneshift.conf.ExecutorsConf
import org.apache.spark.sql.laneshift.runtime.OwnCores
import org.apache.spark.util.Utils

/** What Spark lets its driver do about executors. */
private[driver] trait ClusterExecutors {

  /** Why none can be asked for in this application; none if they can. */
  def impossible: Option[String]

  def dynamicAllocation: Boolean

  /** `spark.sql.laneshift.executors.max` and `.restTime` (ms). */
  def most: Int
  def restMs: Long

  /** How many the application was started with, if its configuration says so. */
  def atStart: Option[Int]

  /** Those that have registered. */
  def ids: Seq[String]

  /** Asks for so many in all; whether the cluster manager has taken the request. */
  def request(total: Int): Boolean

  /** Gives one back, and asks for one less; false, and nothing has happened, if Spark runs a task on it. */
  def giveBack(id: String): Boolean

  /** Whether it has shuffle output of a job that runs. */
  def keepsOutput(id: String): Boolean

  /** Whether it has a cached block. */
  def keepsBlock(id: String): Boolean

  /** How many tasks Spark can run at a time on executors that it still uses, but for these. */
  def slotsWithout(ids: Set[String]): Int

  /** Has Spark begin no more tasks on it, for good; false, and nothing has happened, if it would end those that run, too. */
  def close(id: String): Boolean
}

/** In this package because backends of Spark's scheduler are private to it. `SparkContext.killExecutors` would end executors with
  * their tasks.
  */
private[driver] final class SparkExecutors extends SparkListener with ClusterExecutors {

  /** The shuffles of jobs that run. */
  private val shuffles = new ConcurrentHashMap[Int, Set[Int]]

  private def context = SparkContext.getActive

  private def backend: Option[CoarseGrainedSchedulerBackend] =
    context.map(_.schedulerBackend).collect { case b: CoarseGrainedSchedulerBackend => b }

  override def impossible: Option[String] =
    if (backend.nonEmpty) None
    else Some(
      s"with the master ${context.fold("of no session")(_.master)} an application has no executors that it could ask for or give " +
        "back: the lanes have the cores that are there"
    )

  override def dynamicAllocation: Boolean = context.exists(c => Utils.isDynamicAllocationEnabled(c.conf))

  override def most: Int = context.fold(0)(_.conf.get(ExecutorsConf.Max))

  override def restMs: Long = context.fold(60000L)(_.conf.get(ExecutorsConf.RestTime))

  override def atStart: Option[Int] = context.flatMap { c =>
    val manager = c.master.startsWith("yarn") || c.master.startsWith("k8s")
    c.conf.get(EXECUTOR_INSTANCES).orElse(
      if (manager) Some(SchedulerBackendUtils.DEFAULT_NUMBER_EXECUTORS) else None
    )
  }

  override def ids: Seq[String] = backend.fold(Seq.empty[String])(_.getExecutorIds())

  override def request(total: Int): Boolean = backend.exists { b =>
    val default = SparkContext.getActive.get.resourceProfileManager.defaultResourceProfile.id
    // A request replaces the one before it: that of other resource profiles has to be in it, too.
    val others = b.getRequestedTotalExecutors().collect { case (rp, n) if rp.id != default => rp.id -> n }
    b.requestTotalExecutors(others + (default -> total), Map.empty, Map.empty)
  }

  override def giveBack(id: String): Boolean = backend.exists(
    _.killExecutors(Seq(id), adjustTargetNumExecutors = true, countFailures = false, force = false).nonEmpty
  )

  override def keepsOutput(id: String): Boolean = SparkEnv.get.mapOutputTracker match {
    case tracker: MapOutputTrackerMaster =>
      shuffles.values().asScala.exists(_.exists { shuffle =>
        tracker.shuffleStatuses.get(shuffle).exists(_.withMapStatuses(_.exists { output =>
          output != null && output.location != null && output.location.executorId == id
        }))
      })
    case _ => true
  }

  override def keepsBlock(id: String): Boolean =
    context.exists(_.statusStore.executorList(activeOnly = true).exists(e => e.id == id && e.rddBlocks > 0))

  override def slotsWithout(ids: Set[String]): Int = context.fold(0) { c =>
    c.statusStore.executorList(activeOnly = true)
      .filter(e => !ids(e.id) && !e.isExcluded && c.taskScheduler.getExecutorDecommissionState(e.id).isEmpty)
      .map(e => OwnCores.forTasks(e.totalCores, c.conf))
      .sum
  }

  /** Decommissioned for its driver alone: the executor is not told, so that it neither ends nor moves blocks by itself. */
  override def close(id: String): Boolean = backend.exists { b =>
    context.exists(_.conf.get(EXECUTOR_DECOMMISSION_FORCE_KILL_TIMEOUT).isEmpty) &&
    b.decommissionExecutors(
      Array(id -> ExecutorDecommissionInfo("laneshift gives it back")),
      adjustTargetNumExecutors = false,
      triggeredByExecutor = true
    ).nonEmpty
  }

  override def onJobStart(event: SparkListenerJobStart): Unit = {
    shuffles.put(event.jobId, event.stageInfos.flatMap(_.shuffleDepId).toSet)
    ()
  }

  override def onJobEnd(event: SparkListenerJobEnd): Unit = {
    shuffles.remove(event.jobId)
    ()
  }
}
