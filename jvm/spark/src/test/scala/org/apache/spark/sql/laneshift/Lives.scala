package org.apache.spark.sql.laneshift

import java.nio.file.Path
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.scalatest.Assertions._
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Millis, Seconds, Span}

import org.apache.spark.SparkEnv
import org.apache.spark.sql.{Dataset, Encoder, Row}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}

/** One checkpoint with its source, over several runs of its query. */
sealed trait Life {
  def add(rows: Seq[TestInput]): Unit
  def start(): StreamingQuery

  /** Waits until everything added was processed; throws what the query failed with. */
  def await(running: StreamingQuery): Unit

  /** Rows of the sink so far. */
  def rows: Seq[Row]

  def state(query: StreamingQuery): Seq[String]

  def run(chunk: Seq[TestInput]): Seq[String] = {
    add(chunk)
    val running = start()
    try {
      await(running)
      running.stop()
      state(running)
    } finally running.stop()
  }
}

/** A query case with a stepped clock goes on by two batches for each chunk, whatever the trigger.
  *
  * @param take what foreachBatch does with a batch
  */
final class MicroBatchLife(
    spark: ClassicSession,
    query: QueryCase,
    checkpoint: Path,
    trigger: Trigger = Trigger.ProcessingTime(0L),
    take: Dataset[Row] => Seq[Row] = _.collect().toSeq
) extends Life {
  private val input = {
    val session = spark
    import session.implicits._
    MemoryStream[TestInput](implicitly[Encoder[TestInput]], spark)
  }
  private val byBatch = new ConcurrentHashMap[Long, Seq[Row]]
  private val clock = new SteppedClock

  override def add(rows: Seq[TestInput]): Unit = { input.addData(rows); () }

  /** A batch that is run again replaces what it gave before: an idempotent sink. */
  private def sink(rows: Dataset[Row], id: Long): Unit = { byBatch.put(id, take(rows)); () }

  override def start(): StreamingQuery =
    if (query.stepped) clock.start(spark, query, input.toDF(), checkpoint)(sink)
    else MicroBatchRun.start(query, input.toDF(), checkpoint, trigger)(sink)

  override def await(running: StreamingQuery): Unit =
    if (query.stepped) (1 to 2).foreach(_ => clock.step(running))
    else if (trigger == Trigger.AvailableNow()) { running.awaitTermination(); () }
    else running.processAllAvailable()

  override def rows: Seq[Row] = byBatch.asScala.toSeq.sortBy(_._1).flatMap(_._2)
  override def state(query: StreamingQuery): Seq[String] = MicroBatchRun.stateRows(spark, query, checkpoint)
}

final class RealTimeLife(
    spark: ClassicSession,
    query: QueryCase,
    checkpoint: Path,
    duration: String = RealTimeRun.Short
) extends Life {
  private val input = {
    val session = spark
    import session.implicits._
    LowLatencyMemoryStream[TestInput](spark, 2)
  }
  private val list = CollectingWriter.create()
  private var added = 0L
  private var runs = List.empty[StreamingQuery]

  override def add(rows: Seq[TestInput]): Unit = {
    (0 to 1).foreach(p => input.addData(p, rows.filter(_.number % 2 == p)))
    added += rows.size
  }

  override def start(): StreamingQuery = {
    val writer = new CollectingWriter(list)
    val running = RealTimeRun.start(query.build(input.toDF()), query.outputMode, checkpoint, writer, duration)
    runs ::= running
    running
  }

  /** A run that failed may have ended batches before. */
  override def await(running: StreamingQuery): Unit = Patience.until(running) {
    runs.flatMap(_.recentProgress).map(_.numInputRows).sum >= added && running.lastProgress.numInputRows == 0
  }

  override def rows: Seq[Row] = CollectingWriter.lists(list).asScala.toSeq

  override def state(query: StreamingQuery): Seq[String] =
    RealTimeRun.reading(spark)(MicroBatchRun.stateRows(spark, query, checkpoint))
}

object Patience {
  val long: PatienceConfig = PatienceConfig(Span(120, Seconds), Span(50, Millis))

  /** Waits for `reached`; throws at once what the query fails with meanwhile. */
  def until(running: StreamingQuery)(reached: => Boolean): Unit = {
    val deadline = System.nanoTime() + long.timeout.toNanos
    while (running.exception.isEmpty && !reached) {
      assert(System.nanoTime() < deadline, s"not reached in time: ${running.lastProgress}")
      Thread.sleep(20L)
    }
    running.exception.foreach(e => throw e)
  }
}

/** What a partition may not leave behind. */
object Leftovers {

  /** Threads of the plugin: one in each executor, and one in the driver as long as somebody needs it. */
  private val Plugins = Set("laneshift control", "laneshift look")

  private def all: Seq[String] =
    Thread.getAllStackTraces.keySet.asScala.toSeq.map(_.getName).filter(_.startsWith("laneshift "))

  /** Threads of lanes and receivers. */
  def threads: Seq[String] = all.filterNot(Plugins)

  def plugins: Seq[String] = all.filter(Plugins)

  /** Bytes that task memory accounts hold, those of lanes included. */
  def memory: Long = SparkEnv.get.memoryManager.executionMemoryUsed

  def check(): Unit = eventually {
    assert(threads.isEmpty)
    assert(memory == 0L, "bytes of task memory are still held")
  }(Patience.long, implicitly, implicitly)
}
