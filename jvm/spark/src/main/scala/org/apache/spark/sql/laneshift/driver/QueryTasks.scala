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

/** Tasks of streaming queries, of all sessions: how many there have been at a time lately, and whether some wait.
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
  private val recently = new RecentMost(nowMs)

  /** When one of streaming queries' tasks, or a stage of them, has begun last, or was said to be stuck. */
  private var begunMs = 0L

  override def onStageSubmitted(event: SparkListenerStageSubmitted): Unit =
    if (Option(event.properties).exists(_.containsKey(StreamExecution.QUERY_ID_KEY))) {
      synchronized {
        val of = event.stageInfo
        stages((of.stageId, of.attemptNumber())) = new Stage(of.numTasks)
        note()
      }
      begun()
    }

  override def onStageCompleted(event: SparkListenerStageCompleted): Unit = synchronized {
    stages.remove((event.stageInfo.stageId, event.stageInfo.attemptNumber()))
    ()
  }

  override def onTaskStart(event: SparkListenerTaskStart): Unit = synchronized {
    stages.get((event.stageId, event.stageAttemptId)).foreach { stage =>
      stage.running += event.taskInfo.taskId
      note()
    }
  }

  override def onTaskEnd(event: SparkListenerTaskEnd): Unit = Option(event.taskInfo).foreach { task =>
    synchronized {
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

  /** Those that wait, if none has begun for so long. Whoever is told makes room for them: they have as long again to begin, although
    * the next look may be the next millisecond.
    */
  def stuck(forMs: Long): Int = synchronized {
    val now = nowMs()
    if (waiting == 0 || now - begunMs < forMs) 0
    else {
      begunMs = now
      waiting
    }
  }

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
