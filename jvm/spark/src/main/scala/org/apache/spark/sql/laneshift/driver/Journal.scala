package org.apache.spark.sql.laneshift.driver

import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.laneshift.runtime.HandoffRecord
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent

/** Samples of all elastic queries over time: the newest in memory for the tab, all of them for `post`, which writes Spark's
  * event log for the History Server. Whole ones are rare, because they grow with partitions and shards.
  *
  * Only the journal's own thread waits for executors: neither who reads it nor Spark's listener queue does.
  */
private[laneshift] final class Journal(
    queries: QueryInventory,
    executors: ExecutorDirectory,
    post: SparkListenerEvent => Unit,
    everyMs: Long = Journal.EveryMs
) extends SparkListener {
  @volatile private var kept = Vector.empty[LaneshiftSample]

  // Only the thread uses these.
  private var samples = 0L
  private var lastMs = System.currentTimeMillis()

  private val thread = new Repeating("laneshift journal", everyMs)(turn())

  def start(): Unit = thread.start()
  def stop(): Unit = thread.stop()

  /** The newest samples, without partitions, oldest first. */
  def recent: Seq[LaneshiftSample] = kept

  /** Registered ahead of the inventory: executors get these requests before they are told to forget the query, which is seen whole
    * once more.
    */
  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case _: QueryTerminatedEvent =>
      val (now, runs) = (System.currentTimeMillis(), queries.active)
      val (sites, moves) = (executors.askPartitions(), executors.askHandoffs(Journal.Moves, None))
      thread.once(add(now, QueryRecord.of(QueryView.of(runs, sites())), moves(), whole = true))
    case _ => ()
  }

  private def turn(): Unit = {
    val now = System.currentTimeMillis()
    val found = QueryRecord.of(QueryView.of(queries.active, executors.partitions()))
    add(now, found, executors.handoffs(Journal.Moves, None), whole = samples % Journal.WholeEvery == 0)
  }

  private def add(
      now: Long,
      queries: Seq[QueryRecord],
      moves: => Seq[(Long, HandoffRecord)],
      whole: Boolean
  ): Unit = if (queries.nonEmpty) {
    // Those of after `now` are the next sample's.
    val sample =
      LaneshiftSample(now, queries, moves.map(_._2).filter(m => m.timeMs > lastMs && m.timeMs <= now))
    val brief = sample.copy(queries = queries.map(_.brief))
    kept = (kept :+ brief).takeRight(Journal.Kept)
    lastMs = math.max(lastMs, now)
    samples += 1
    post(if (whole) sample else brief)
  }
}

private[laneshift] object Journal {
  val EveryMs = 5000L

  /** Every fifth minute. */
  private val WholeEvery = 60

  /** Moves in a sample. */
  private val Moves = 50

  /** Five minutes of samples. */
  private val Kept = 60
}
