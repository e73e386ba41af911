package org.apache.spark.sql.laneshift.runtime

import scala.collection.mutable

import laneshift.routing.TaskRanges

/** What one stage of a micro-batch has left to do for this executor: from what its shuffles hold for each partition, and from what
  * a byte took in earlier batches. Spark starts a stage's tasks in the order of their partitions, so that those behind the
  * newest one here are still to come, on whichever executor has a core free first; started together they begin in any order.
  *
  * @param bytes by partition
  * @param ranges which partitions each task computes, one after the other, on one core
  * @param cores of this executor
  * @param slots tasks that Spark runs at a time, on all executors
  * @param nsPerByte what a byte of a partition takes on one lane
  */
private[runtime] final class StageWork(
    bytes: Array[Long],
    ranges: TaskRanges,
    cores: Int,
    slots: Int,
    nsPerByte: Int => Double
) {
  private val runningSince = mutable.Map.empty[Int, Long]

  /** Tasks that have begun here and are not over: when, and what is left of their partitions. */
  private val tasks = mutable.Map.empty[Int, (Long, mutable.Set[Int])]
  private var newestTask = -1
  private val begun = mutable.BitSet.empty

  /** Tasks that run here, as of the newest that has begun. Those before it may come to their work after it. */
  private var running = 0

  /** Whether a partition of the stage has more than one lane here. */
  var hasLanes = false

  def bytesOf(partition: Int): Long = bytes(partition)

  /** What all of the partition takes on one lane, in nanoseconds. */
  def of(partition: Int): Double = bytes(partition) * nsPerByte(partition)

  /** What those partitions of its task take, one lane each, that take so much. */
  def ofTask(partition: Int, takes: Double => Boolean = _ => true): Double =
    ranges.of(ranges.taskOf(partition)).iterator.map(of).filter(takes).sum

  /** The one that takes longest on one lane; there is one at least. */
  def heaviest(partitions: collection.Set[Int]): Int = partitions.iterator.filter(_ < bytes.length).maxBy(of)

  /** @param tasksHere those of the stage that run here */
  def begin(partition: Int, tasksHere: Int, nowNs: Long): Unit = {
    running = tasksHere
    runningSince(partition) = nowNs
    val task = ranges.taskOf(partition)
    tasks.getOrElseUpdate(task, (nowNs, mutable.Set.from(ranges.of(task))))
    newestTask = math.max(newestTask, task)
    begun += task
  }

  def end(partition: Int): Unit = {
    runningSince -= partition
    val task = ranges.taskOf(partition)
    tasks.get(task).foreach { case (_, left) =>
      left -= partition
      if (left.isEmpty) tasks -= task
    }
  }

  /** The time after which this executor's cores would be done together if work could be cut at will, in nanoseconds. */
  def evenNs(nowNs: Long): Double = {
    val here = tasks.iterator.map { case (task, (sinceNs, _)) => restOfTask(task, sinceNs, nowNs) }.sum
    val late = math.min(running - tasks.size, newestTask + 1 - begun.size)
    val ofLate = if (late > 0) late * meanNs else 0.0
    // Each task that begins asks, so that this is run through as often as there are partitions: without a list.
    var ahead = 0.0
    var partition = if (newestTask + 1 < ranges.tasks) ranges.of(newestTask + 1).head else bytes.length
    while (partition < bytes.length) {
      ahead += of(partition)
      partition += 1
    }
    (here + ofLate + ahead * cores / math.max(cores, slots)) / cores
  }

  /** Of a task. */
  private def meanNs: Double = bytes.indices.iterator.map(of).sum / ranges.tasks

  private def restOfTask(task: Int, sinceNs: Long, nowNs: Long): Double =
    math.max(0.0, ranges.of(task).iterator.map(of).sum - (nowNs - sinceNs))

  /** What a partition that runs here would still take if it had one lane from its beginning. */
  def restNs(partition: Int, nowNs: Long): Double =
    runningSince.get(partition).fold(0.0)(since => math.max(0.0, of(partition) - (nowNs - since)))
}
