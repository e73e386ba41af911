package org.apache.spark.sql.laneshift.runtime

import java.lang.management.ManagementFactory
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import com.sun.management.OperatingSystemMXBean

import org.apache.spark.TaskContext

import laneshift.lane.LaneBudget

/** The cores of one process: Spark's tasks have each one, first of all; lanes beyond the first of each partition have others, and what
  * is left is idle. A lane for which there is no core is one too many: Spark has started tasks since.
  *
  * Any thread may call any method.
  *
  * @param machineLoad the share of the machine's CPU time that is used, by whomever, since it was last asked; below zero if that
  *   is not known
  */
private[laneshift] final class Cores(
    val count: Int,
    budget: LaneBudget,
    machineLoad: () => Double
) {
  private val tasks = ConcurrentHashMap.newKeySet[TaskContext]()
  @volatile private var load = 0.0

  /** Partitions that could use more cores. Each says so again and again: who does not is not hungry any more, whatever became of it. */
  private val hungry = new ConcurrentHashMap[AnyRef, Cores.Hungry]
  @volatile private var looks = 0L

  /** A task of Spark's begins, of whichever query or job, on its thread. */
  def taskStarted(task: TaskContext): Unit = {
    tasks.add(task)
    task.addTaskCompletionListener[Unit] { over =>
      tasks.remove(over)
      ()
    }
  }

  /** Running tasks of a stage, those among them that have not come to their work yet. */
  def tasksOf(stageId: Int): Int = tasks.asScala.count(_.stageId() == stageId)

  /** Running tasks of other stages. */
  def tasksBeside(stageId: Int): Int = tasks.asScala.count(_.stageId() != stageId)

  /** The cores for one of the tasks of a stage that run: what tasks of other stages leave, by those of this one. */
  def partOf(task: TaskContext): Int =
    math.max(1, (count - tasksBeside(task.stageId())) / math.max(1, tasksOf(task.stageId())))

  /** Below zero if lanes run for which there is no core. */
  def idle: Int = count - tasks.size - lanes

  def taskCount: Int = tasks.size

  /** Lanes that run, beyond the first of each partition. */
  def lanes: Int = budget.taken

  /** Called every half second or so, on one thread. */
  def look(): Unit = {
    load = machineLoad()
    looks += 1
    hungry.values().removeIf(looks - _.atLook > Cores.Stale)
  }

  /** The machine has no CPU time left, whatever Spark was told of its cores: more threads would only share it. */
  def areExhausted: Boolean = load > Cores.Exhausted

  /** Notes that a partition, with so many lanes, could use more cores, or could not. */
  def want(partition: AnyRef, lanes: Int, more: Boolean): Unit =
    if (more) hungry.put(partition, Cores.Hungry(lanes - 1, looks)) else hungry.remove(partition)

  /** What a partition that wants more may take at once: its part of the idle cores, at least one while there are any. */
  def share: Int = {
    val free = idle
    if (free <= 0 || areExhausted) 0 else math.max(1, free / math.max(1, hungry.size))
  }

  /** The most lanes that a partition should have for others that want more and have less. */
  def fair: Int = {
    val each = (count - tasks.size) / math.max(1, hungry.size)
    if (hungry.values().asScala.exists(_.lanes < each)) 1 + math.max(0, each) else Int.MaxValue
  }
}

private[laneshift] object Cores {

  /** @param lanes beyond its first */
  private final case class Hungry(lanes: Int, atLook: Long)

  /** Looks after which a word of hunger does not count any more: partitions are asked with each. */
  private val Stale = 8
  private val Exhausted = 0.95

  /** Tests of what lanes do run on machines that have other things to do. */
  @volatile private[laneshift] var machineLoad: () => Double =
    ManagementFactory.getOperatingSystemMXBean match {
      case system: OperatingSystemMXBean => () => system.getCpuLoad
      case _ => () => -1.0
    }
}
