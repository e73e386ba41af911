package org.apache.spark.sql.laneshift.runtime

import scala.collection.mutable

import org.apache.spark.sql.laneshift.spec.RowWork

import laneshift.routing.TaskRanges

/** Chooses the lanes of an operator's partitions as their tasks begin, where the query leaves that to laneshift
  * (`spark.sql.laneshift.lanes=auto`): a partition that would hold up its stage gets as many as let it end with the others. One
  * per operator and process; what it knows of costs is measured there, batch by batch.
  *
  * Called by tasks' threads, each method under this object's lock, which is held over no other call. Whoever asks for sizes, which may
  * take a call to the driver, holds another: tasks of the stage that begin meanwhile wait for what it hears, and do not ask, too.
  */
private[runtime] final class OperatorWork(cores: Int, maxLanes: Int) {
  private val costs = new LaneCosts
  private val trial = new LaneTrial

  /** What a partition took when it had lanes the last time. */
  private val onLanes = mutable.Map.empty[Int, OnLanes]
  private var stage = Option.empty[(StageAttempt, StageWork)]
  private var wasTogether = false
  private val asking = new Object

  /** Whether a batch's row-wise work is apart, and that of batches before was not: what these took says nothing of it. */
  def hasGoneApart(work: RowWork): Boolean = synchronized {
    wasTogether = wasTogether || work != RowWork.Apart
    wasTogether && work == RowWork.Apart
  }

  /** The lanes that a partition should begin the batch with; none if it is not known what the stage has to do.
    *
    * @param bytes what the stage's shuffles hold for each partition; asked for once an attempt, if it says anything
    * @param ranges which partitions each task of the stage computes
    * @param slots tasks that Spark runs at a time, on all executors
    * @param ownTasks tasks of the stage that run here, those that have not come as far as this among them
    * @param otherTasks tasks of other stages that run here
    */
  def begin(
      attempt: StageAttempt,
      partition: Int,
      bytes: => Option[Array[Long]],
      ranges: TaskRanges,
      slots: Int,
      ownTasks: Int,
      otherTasks: Int,
      nowNs: Long
  ): Option[Int] = {
    asking.synchronized {
      if (synchronized(known(attempt)).isEmpty) {
        val said = bytes
        synchronized {
          stage = said.map(attempt -> new StageWork(_, ranges, cores, slots, costs.nsPerByte))
        }
      }
    }
    synchronized {
      known(attempt).map { work =>
        work.begin(partition, ownTasks, nowNs)
        val chosen = if (trial.allows(attempt.batchId)) lanes(work, partition, otherTasks, nowNs) else 1
        work.hasLanes = work.hasLanes || chosen > 1
        chosen
      }
    }
  }

  /** Whether what is left of a partition is worth more lanes. */
  def isWorthMore(attempt: StageAttempt, partition: Int, nowNs: Long): Boolean = synchronized {
    trial.allows(attempt.batchId) && known(attempt).exists(_.restNs(partition, nowNs) >= OperatorWork.WorthNs)
  }

  private def lanes(work: StageWork, partition: Int, otherTasks: Int, nowNs: Long): Int = {
    // Partitions of one task follow each other: each has to be faster if the task is to be. Little ones need not if together
    // they are no more than an even share, and would take idle cores from the one that holds the task up.
    val own = work.of(partition)
    val alone = work.ofTask(partition)
    val even = math.max(work.evenNs(nowNs), 1.0)
    val little = even * OperatorWork.Slack
    val isLittle = own < little && work.ofTask(partition, _ < little) <= even
    val most = math.min(maxLanes, cores - otherTasks)
    val wanted = math.max(1, math.min(most.toDouble, math.ceil(alone / even - OperatorWork.Slack)).toInt)
    val saved = math.min(alone - math.max(even, alone / wanted), own - own / wanted)
    if (isLittle || alone < even * OperatorWork.Uneven || saved < OperatorWork.WorthNs) 1 else wanted
  }

  /** The partition's task has succeeded; `lanes` if it had as many all the time. */
  def ended(attempt: StageAttempt, partition: Int, lanes: Option[Int], tookNs: Long): Unit = synchronized {
    known(attempt).foreach { work =>
      work.end(partition)
      val bytes = work.bytesOf(partition)
      if (bytes > 0L) lanes.foreach { n =>
        val now = tookNs.toDouble / bytes
        val before = onLanes.get(partition)
        if (n > 1) onLanes(partition) = OnLanes(bytes, now)
        // Beside another partition's lanes a task may have less than a core.
        else if (!work.hasLanes || !costs.knows(partition)) costs.measured(partition, bytes, now)
        // The partition that holds the stage back is what lanes are for: to others they need not bring anything.
        if (onLanes.contains(partition) && work.heaviest(onLanes.keySet) == partition) {
          if (n > 1) trial.onLanes(attempt.batchId, costs.nsPerByte(partition) / now)
          else
            before.filter(_.isLike(bytes)).foreach(b => trial.onOneLane(attempt.batchId, now / b.nsPerByte))
        }
      }
    }
  }

  /** The partition's task has ended some other way. */
  def failed(attempt: StageAttempt, partition: Int): Unit =
    synchronized(known(attempt).foreach(_.end(partition)))

  private def known(attempt: StageAttempt): Option[StageWork] = stage.collect { case (`attempt`, work) =>
    work
  }
}

/** What a batch of a partition on lanes had, and what a byte of it took. */
private final case class OnLanes(bytes: Long, nsPerByte: Double) {

  /** Whether a batch of so many bytes can be compared: what does not hang on rows weighs more in a small one. */
  def isLike(others: Long): Boolean = others <= bytes * 2 && bytes <= others * 2
}

/** One attempt of the stage that computes an operator in one batch. */
private[runtime] final case class StageAttempt(batchId: Long, stageId: Int, number: Int)

private[runtime] object OperatorWork {

  /** A partition with less than so many times the even share is left alone. */
  val Uneven = 1.15

  /** A lane for less than this part of the even share is not worth its thread. */
  val Slack = 0.15

  /** Nor are lanes for less time than this of a partition in a batch. */
  val WorthNs = 250e6

  /** Batches on lanes from the first comparison with one lane to the second; then four times as many each time, up to the last. */
  val FirstStock = 2L
  val StockEvery = 256L
}

/** Whether more than one lane pays for an operator, as batches have shown: with lanes, and then with one lane again, both after
  * whatever warms up. Lanes that pay are compared again now and then. Not every operator gains: what a row takes may be nothing
  * against the way to a lane, or be spent elsewhere in the stage.
  */
private final class LaneTrial {
  import OperatorWork.{FirstStock, StockEvery}

  // The first batch with lanes starts threads and Python workers, and does not count.
  private val trial = new Trial[Unit](warmUp = 1L, Trial.FirstRest)

  /** Batches with lanes, one after the other, that were slower than expected. */
  private var disappointing = 0

  /** The batch that is to run on one lane next. */
  private var stockAt = Option.empty[Long]
  private var stockEvery = FirstStock
  private var lastJudged = Long.MinValue

  /** True if a partition may have lanes in this batch. */
  def allows(batchId: Long): Boolean = trial.mayBegin(batchId) && !stockAt.contains(batchId)

  /** A partition's batch on lanes took `gain` times less than one lane took the last time. */
  def onLanes(batchId: Long, gain: Double): Unit = {
    if (!trial.isRunning) trial.begin(batchId, ())
    if (trial.before(batchId).nonEmpty && batchId > lastJudged) {
      lastJudged = batchId
      // A batch that was apart from its row-wise work was none to compare with.
      stockAt = stockAt.filter(_ > batchId).orElse(Some(batchId + 1))
      // What one lane took before the first comparison, it took while everything was slow.
      val (least, most) = if (trial.isProven) (Trial.Worth, 2) else (1.0, 0)
      disappointing = if (gain >= least) 0 else disappointing + 1
      if (disappointing > most) refuse(batchId)
    }
  }

  /** A partition's batch on one lane took `gain` times what lanes took the last time. */
  def onOneLane(batchId: Long, gain: Double): Unit = if (stockAt.contains(batchId)) {
    if (gain >= Trial.Worth) {
      trial.paid()
      stockEvery = math.min(StockEvery, stockEvery * 4)
      stockAt = Some(batchId + stockEvery)
    } else refuse(batchId)
  }

  private def refuse(batchId: Long): Unit = {
    trial.refuse(batchId + 1)
    disappointing = 0
    stockAt = None
    stockEvery = FirstStock
  }
}

/** What a byte of an operator's input takes on one lane, in nanoseconds, by partition: moving averages. A partition that has not
  * been measured takes the operator's average, none at all if there is none.
  */
private[runtime] final class LaneCosts {
  private val byPartition = mutable.Map.empty[Int, Double]
  private var average = 0.0
  private var largest = 0L

  def knows(partition: Int): Boolean = byPartition.contains(partition)

  def nsPerByte(partition: Int): Double = byPartition.getOrElse(partition, average)

  def measured(partition: Int, bytes: Long, now: Double): Unit = {
    // A partition with little in it says little beside others: most of its time is not its rows'.
    largest = math.max(largest, bytes)
    val much = 2.0 * bytes / (bytes + largest)
    if (average == 0.0) average = now
    byPartition(partition) = LaneCosts.mixed(nsPerByte(partition), now, 0.8 * much)
    average = LaneCosts.mixed(average, now, 0.3 * much)
  }
}

private object LaneCosts {
  def mixed(before: Double, now: Double, weight: Double): Double = before * (1 - weight) + now * weight
}
