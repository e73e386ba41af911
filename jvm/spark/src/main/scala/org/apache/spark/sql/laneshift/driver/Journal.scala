package org.apache.spark.sql.laneshift.driver

import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.sql.laneshift.runtime.HandoffRecord

/** Samples of all elastic queries over time: the newest in memory for the tab, all of them for `post`, which writes Spark's
  * event log for the History Server. Whole ones are rare, because they grow with partitions and shards.
  */
private[laneshift] final class Journal(post: SparkListenerEvent => Unit) {
  @volatile private var kept = Vector.empty[LaneshiftSample]

  private var samples = 0L
  private var lastMs = System.currentTimeMillis()

  /** The newest samples, without partitions, oldest first. On any thread; waits for nobody. */
  def recent: Seq[LaneshiftSample] = kept

  /** Adds a sample of time `now` (ms since 1970), if a query is elastic; only then are the moves asked for. Every fifth minute it is
    * whole by itself. Waits for the moves; a look's thread may still be at its last sample when the next one comes.
    *
    * @param ending a run that is seen for the last time: it is whole
    */
  private[driver] def add(
      now: Long,
      queries: Seq[QueryView],
      moves: => Seq[(Long, HandoffRecord)],
      ending: Option[String] = None
  ): Unit = synchronized {
    val found = QueryRecord.of(queries)
    if (found.nonEmpty) {
      // Those of after `now` are the next sample's.
      val sample =
        LaneshiftSample(now, found, moves.map(_._2).filter(m => m.timeMs > lastMs && m.timeMs <= now))
      val brief = sample.copy(queries = found.map(_.brief))
      kept = (kept :+ brief).takeRight(Journal.Kept)
      lastMs = math.max(lastMs, now)
      post(
        if (samples % Journal.WholeEvery == 0) sample
        else sample.copy(queries = found.map(q => if (ending.contains(q.runId)) q else q.brief))
      )
      samples += 1
    }
  }
}

private[laneshift] object Journal {

  /** Samples from one whole one to the next. */
  private val WholeEvery = 60

  /** Moves in a sample. */
  private[driver] val Moves = 50

  /** Five minutes of samples. */
  private val Kept = 60
}
