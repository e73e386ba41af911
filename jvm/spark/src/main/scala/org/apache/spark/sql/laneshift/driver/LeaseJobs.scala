package org.apache.spark.sql.laneshift.driver

import java.util.Properties

import scala.util.control.NonFatal

import org.apache.spark.{FutureAction, Partition, SparkContext, TaskContext}
import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.ExecutorCacheTaskLocation
import org.apache.spark.sql.laneshift.runtime.HeldLeases

/** A job whose only task holds a lease. */
private[driver] trait LeaseJob {

  /** Whether Spark is done with it, whichever way: its core is free. */
  def isOver: Boolean

  /** For one whose task has not begun. */
  def cancel(): Unit
}

private[driver] trait LeaseJobs {

  /** Asks Spark for a task on that executor that holds the lease; waits for nobody. None if Spark takes no jobs any more. */
  def submit(lease: String, executorId: String, host: String): Option[LeaseJob]
}

/** In this package because where a task would rather run, and a thread's properties, are private to Spark. */
private[driver] final class SparkLeaseJobs extends LeaseJobs with Logging {

  override def submit(lease: String, executorId: String, host: String): Option[LeaseJob] =
    SparkContext.getActive.filterNot(_.isStopped).flatMap { sc =>
      // Nothing of the thread's own: a streaming query's name would make the task one of that query's.
      val before = sc.getLocalProperties
      val own = new Properties
      own.setProperty(HeldLeases.Property, lease)
      own.setProperty(SparkContext.SPARK_JOB_GROUP_ID, SparkLeaseJobs.Group)
      own.setProperty(
        SparkContext.SPARK_JOB_DESCRIPTION,
        s"laneshift: a core of executor $executorId for a lane"
      )
      own.setProperty(SparkContext.SPARK_SCHEDULER_POOL, SparkLeaseJobs.Pool)
      sc.setLocalProperties(own)
      try {
        val place = ExecutorCacheTaskLocation(host, executorId).toString
        val rdd = new LeaseRDD(sc, lease, executorId, place)
        val job = sc.submitJob(rdd, SparkLeaseJobs.nothing, Seq(0), (_: Int, _: Unit) => (), ())
        Some(new Submitted(job))
      } catch {
        case NonFatal(error) =>
          logWarning(s"Spark takes no task for a lease on executor $executorId.", error)
          None
      } finally sc.setLocalProperties(before)
    }

  private final class Submitted(job: FutureAction[Unit]) extends LeaseJob {
    override def isOver: Boolean = job.isCompleted
    override def cancel(): Unit = job.cancel()
  }
}

private[driver] object SparkLeaseJobs {

  /** The jobs' group, and the pool of a fair scheduler that they are in. */
  val Group = "laneshift-leases"
  val Pool = "laneshift-leases"

  private val nothing: Iterator[Unit] => Unit = _ => ()
}

/** One task, which would rather be on one executor, and works on nothing. */
private[driver] final class LeaseRDD(
    sc: SparkContext,
    lease: String,
    executorId: String,
    @transient place: String
) extends RDD[Unit](sc, Nil) {
  override protected def getPartitions: Array[Partition] = Array(LeaseRDD.Only)

  override protected def getPreferredLocations(split: Partition): Seq[String] = Seq(place)

  override def compute(split: Partition, context: TaskContext): Iterator[Unit] = {
    HeldLeases.run(lease, executorId, context)
    Iterator.empty
  }
}

private[driver] object LeaseRDD {
  private object Only extends Partition {
    override def index: Int = 0
  }
}
