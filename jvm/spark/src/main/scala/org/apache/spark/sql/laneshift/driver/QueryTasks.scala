package org.apache.spark.sql.laneshift.driver

import org.apache.spark.scheduler.{SparkListener, SparkListenerStageSubmitted, StageTasks}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/** Tasks of streaming queries, of all sessions: how many there have been at a time lately, and whether some wait.
  *
  * @param begun called when a stage has begun whose tasks want cores; waits for nobody
  * @param stages those that have tasks now, of queries or not
  */
private[driver] final class QueryTasks(
    begun: () => Unit,
    stages: () => Seq[StageTasks] = () => StageTasks.now(),
    nowMs: () => Long = () => System.nanoTime() / 1000000L
) extends SparkListener {
  private val recently = new RecentMost(nowMs)

  /** Stages with the tasks that wait there, as they were when one of either has begun last, or was said to be stuck. */
  private var seen = Map.empty[(Int, Int), Int]
  private var begunMs = 0L

  private def ofQueries: Seq[StageTasks] = stages().filter(_.has(StreamExecution.QUERY_ID_KEY))

  /** Its tasks may come to Spark's scheduler a little later, or have been there already. */
  override def onStageSubmitted(event: SparkListenerStageSubmitted): Unit =
    if (Option(event.properties).exists(_.containsKey(StreamExecution.QUERY_ID_KEY))) {
      synchronized {
        note(ofQueries)
        recently.note(event.stageInfo.numTasks)
      }
      begun()
    }

  private def note(now: Seq[StageTasks]): Unit = {
    recently.note(now.map(_.wanted).sum)
    val waiting = now.map(stage => stage.of -> stage.waiting).toMap
    if (waiting != seen) {
      seen = waiting
      begunMs = nowMs()
    }
  }

  /** Those that wait, if none has begun for so long. Whoever is told makes room for them: they have as long again to begin, although
    * the next look may be the next millisecond.
    */
  def stuck(forMs: Long): Int = synchronized {
    note(ofQueries)
    val (now, waiting) = (nowMs(), seen.values.sum)
    if (waiting == 0 || now - begunMs < forMs) 0
    else {
      begunMs = now
      waiting
    }
  }

  /** The most that ran or waited at a time in the last minute or two. */
  def most: Int = synchronized {
    note(ofQueries)
    recently.get
  }
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
