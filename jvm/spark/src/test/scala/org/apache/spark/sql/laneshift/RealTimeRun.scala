package org.apache.spark.sql.laneshift

import java.nio.file.Path
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, ForeachWriter, Row}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
import org.apache.spark.sql.laneshift.runtime.ElasticRuntime
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}

/** Collects what a Real-time query puts out, in the order in which its tasks do. One list per test, by number. */
final class CollectingWriter(list: Long) extends ForeachWriter[Row] {
  override def open(partitionId: Long, epochId: Long): Boolean = true
  override def process(row: Row): Unit = { CollectingWriter.lists(list).add(row); () }
  override def close(errorOrNull: Throwable): Unit = ()
}

object CollectingWriter {
  val lists = scala.collection.concurrent.TrieMap.empty[Long, ConcurrentLinkedQueue[Row]]
  private val next = new AtomicLong

  def create(): Long = {
    val id = next.getAndIncrement()
    lists(id) = new ConcurrentLinkedQueue[Row]
    id
  }
}

/** How rows come to a query in Real-time Mode. */
sealed abstract class Feed

object Feed {

  /** All of them, before the query starts. */
  case object AtOnce extends Feed

  /** A sixth of them at a time, the next when the lanes of an elastic query have taken the last: by no clock. */
  case object Taken extends Feed

  /** A sixth of them every 400 ms: timers of the query and of the motion come between them. */
  case object ByClock extends Feed
}

/** Runs a query case in Real-time Mode over at least two batches. */
object RealTimeRun {

  /** Of a batch that nothing waits for. */
  val Short = "300 milliseconds"

  def apply(
      spark: ClassicSession,
      query: QueryCase,
      rows: Seq[TestInput],
      checkpoint: Path,
      feed: Feed
  ): RunResult = {
    val session = spark
    import session.implicits._
    val input = LowLatencyMemoryStream[TestInput](spark, 2)
    // Keys (of either kind) stay in one source partition each, so that their order is defined.
    def add(chunk: Seq[TestInput]): Unit =
      (0 to 1).foreach(p => input.addData(p, chunk.filter(r => r.number % 2 == p)))
    if (feed == Feed.AtOnce) add(rows)
    val list = CollectingWriter.create()
    val duration = if (feed == Feed.ByClock) "1 second" else Short
    val running =
      start(query.build(input.toDF()), query.outputMode, checkpoint, new CollectingWriter(list), duration)
    val out = CollectingWriter.lists(list)
    try {
      if (feed != Feed.AtOnce) {
        var added = 0L
        rows.grouped(math.max(1, rows.size / 6)).foreach { chunk =>
          add(chunk)
          added += chunk.size
          if (feed == Feed.ByClock) Thread.sleep(400)
          else Patience.until(running)(taken(running) >= added)
        }
      }
      // Done when a batch has ended that read nothing more.
      val reads = rows.size.toLong
      Patience.until(running)(
        running.recentProgress.map(_.numInputRows).sum >= reads && running.lastProgress.numInputRows == 0
      )
      val plan = MicroBatchRun.planOf(running)
      running.stop()
      val state = reading(spark)(MicroBatchRun.stateRows(spark, running, checkpoint))
      RunResult(
        Seq(out.asScala.toSeq),
        Map.empty, // The first batch finds its stores nowhere.
        Seq(Seq(counts(running))),
        state,
        MicroBatchRun.handoffs(running),
        MicroBatchRun.midBatchHandoffs(running),
        plan
      )
    } finally {
      running.stop()
      CollectingWriter.lists.remove(list)
    }
  }

  /** Rows that the partitions of the query's first elastic operator have taken. */
  private def taken(running: StreamingQuery): Long = ElasticRuntime.get.all
    .map(_.view)
    .filter(_.spec.key.runId == running.runId.toString)
    .groupMapReduce(_.spec.key.operatorId)(_.rowsIn)(_ + _)
    .values
    .maxOption
    .getOrElse(0L)

  def start(
      answers: DataFrame,
      outputMode: String,
      checkpoint: Path,
      writer: ForeachWriter[Row],
      duration: String
  ): StreamingQuery = answers.writeStream
    .outputMode(outputMode)
    .trigger(Trigger.RealTime(duration))
    .option("checkpointLocation", checkpoint.toString)
    .foreach(writer)
    .start()

  /** Real-time Mode always writes checkpoints of format 2; a reader has to be told. */
  def reading[T](spark: ClassicSession)(read: => T): T = {
    val format = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    spark.conf.set(format, "2")
    try read
    finally spark.conf.unset(format)
  }

  /** Totals over the run: where batches end is up to time. Rows updated are left out: they count writes of cached groups,
    * which depend on the cache, stock's too; of an operator's own counts, those of timers.
    */
  def counts(running: StreamingQuery): OperatorCounts = {
    val batches = running.recentProgress.toSeq.flatMap(_.stateOperators)
    val each = batches.map(OperatorCounts.of)
    each.last
      .copy(
        rowsUpdated = 0,
        rowsRemoved = batches.map(_.numRowsRemoved).sum,
        droppedByWatermark = batches.map(_.numRowsDroppedByWatermark).sum,
        counted = each.flatMap(_.counted).filter(_._1.endsWith("Timers")).groupMapReduce(_._1)(_._2)(_ + _)
      )
  }
}
