package org.apache.spark.sql.laneshift.runtime

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.apache.spark.{SparkEnv, TaskContext}

/** The leases that tasks of this process hold (docs/handoff.md, section 16). A lease goes on while the driver says so: its task ends
  * when the driver's word leaves it out, when nothing was heard of the driver for ten seconds, or when Spark kills it.
  *
  * Any thread may call any method.
  */
private[laneshift] final class HeldLeases(nowNs: () => Long = () => System.nanoTime()) {

  /** Until when each goes on without another word. */
  private val until = mutable.Map.empty[String, Long]

  /** On the task's thread: returns when the lease is over. */
  def hold(id: String, isKilled: () => Boolean): Unit = synchronized {
    until(id) = nowNs() + HeldLeases.PatienceNs
    try while (goesOn(id) && !isKilled()) wait(HeldLeases.LookMs)
    finally until.remove(id)
  }

  private def goesOn(id: String): Boolean =
    until.get(id).exists(end => nowNs() < end)

  /** The driver's word: which leases of the application there are; all others here are over. Gives those that are held here. */
  def word(ids: Set[String]): Set[String] = synchronized {
    val end = nowNs() + HeldLeases.PatienceNs
    until.keys.toSeq.foreach { id =>
      if (ids(id)) until(id) = end else until.remove(id)
    }
    notifyAll()
    until.keySet.toSet
  }

  /** Tasks here that hold one. */
  def count: Int = synchronized(until.size)
}

private[laneshift] object HeldLeases {

  /** So long a lease goes on without a word of the driver. */
  val PatienceNs: Long = TimeUnit.SECONDS.toNanos(10)

  /** How often a task looks whether Spark has killed it. */
  private val LookMs = 100L

  /** The local property of tasks that hold a lease: its name. */
  val Property = "laneshift.lease"

  def isLease(task: TaskContext): Boolean = task.getLocalProperty(Property) != null

  /** What a lease's task does. On another executor than the one that is wanted it is over at once. */
  def run(id: String, executorId: String, task: TaskContext): Unit =
    if (SparkEnv.get.executorId == executorId) ElasticRuntime.get.leases.hold(id, () => task.isInterrupted())
}
