package org.apache.spark.sql.laneshift.driver

import scala.collection.mutable

import org.apache.spark.Success
import org.apache.spark.scheduler.{
  SparkListener,
  SparkListenerStageCompleted,
  SparkListenerStageSubmitted,
  SparkListenerTaskEnd,
  SparkListenerTaskStart
}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.laneshift.runtime.HeldLeases

/** Tasks of streaming queries, of all sessions: who waits for a core, and how many there have been at a time lately. One listener
  * counts all of it, so that what runs and what waits are of the same moment.
  *
  * @param begun called when a stage has begun whose tasks want cores; waits for nobody
  */
private[driver] final class QueryTasks(
    begun: () => Unit,
    nowMs: () => Long = () => System.nanoTime() / 1000000L
) extends SparkListener {
  private final class Stage(val tasks: Int) {
    val done = mutable.Set.empty[Int]
    val running = mutable.Set.empty[Long]
    def waiting: Int = math.max(0, tasks - done.size - running.size)
  }

  /** Of streaming queries, by id and attempt. */
  private val stages = mutable.Map.empty[(Int, Int), Stage]
  private val leases = mutable.Set.empty[Int]

  /** Tasks that run, of whichever job, but those that hold leases. */
  private val running = mutable.Set.empty[Long]
  private val recently = new RecentMost(nowMs)

  /** When one of streaming queries' tasks, or a stage of them, has begun last. */
  private var begunMs = 0L

  override def onStageSubmitted(event: SparkListenerStageSubmitted): Unit = {
    val of = Option(event.properties)
    val (id, attempt) = (event.stageInfo.stageId, event.stageInfo.attemptNumber())
    if (of.exists(_.containsKey(HeldLeases.Property))) synchronized(leases += id)
    else if (of.exists(_.containsKey(StreamExecution.QUERY_ID_KEY))) {
      synchronized {
        stages((id, attempt)) = new Stage(event.stageInfo.numTasks)
        note()
      }
      begun()
    }
  }

  override def onStageCompleted(event: SparkListenerStageCompleted): Unit = synchronized {
    stages.remove((event.stageInfo.stageId, event.stageInfo.attemptNumber()))
    leases.remove(event.stageInfo.stageId)
    ()
  }

  override def onTaskStart(event: SparkListenerTaskStart): Unit = synchronized {
    if (!leases(event.stageId)) {
      running += event.taskInfo.taskId
      stages.get((event.stageId, event.stageAttemptId)).foreach { stage =>
        stage.running += event.taskInfo.taskId
        note()
      }
    }
  }

  override def onTaskEnd(event: SparkListenerTaskEnd): Unit = Option(event.taskInfo).foreach { task =>
    synchronized {
      running -= task.taskId
      stages.get((event.stageId, event.stageAttemptId)).foreach { stage =>
        stage.running -= task.taskId
        if (event.reason == Success) stage.done += task.index
      }
    }
  }

  private def waiting: Int = stages.values.map(_.waiting).sum

  private def wanted: Int = stages.values.map(_.running.size).sum + waiting

  private def note(): Unit = {
    begunMs = nowMs()
    recently.note(wanted)
  }

  /** Those that wait, if none has begun for so long. */
  def stuck(forMs: Long): Int = synchronized(if (nowMs() - begunMs >= forMs) waiting else 0)

  /** How many of those that wait have no core, if there are so many slots, and `leases` of them are not theirs. */
  def short(slots: Int, leases: Int): Int =
    synchronized(math.max(0, waiting - math.max(0, slots - running.size - leases)))

  /** The most that ran or waited at a time in the last minute or two. */
  def most: Int = synchronized(recently.get)
}

/** The greatest number that was noted lately: in this minute or the one before. */
private[driver] final class RecentMost(nowMs: () => Long) {
  private var minute = Long.MinValue
  private var before, now = 0

  private def turn(): Unit = {
    val current = nowMs() / RecentMost.MinuteMs
    if (current != minute) {
      before = if (current == minute + 1) now else 0
      now = 0
      minute = current
    }
  }

  def note(n: Int): Unit = {
    turn()
    now = math.max(now, n)
  }

  def get: Int = {
    turn()
    math.max(before, now)
  }
}

private object RecentMost {
  private val MinuteMs = 60000L
}
