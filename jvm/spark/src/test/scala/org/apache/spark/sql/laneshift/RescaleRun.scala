package org.apache.spark.sql.laneshift

import java.nio.file.Path
import java.util.concurrent.{ConcurrentHashMap, CountDownLatch}
import java.util.concurrent.TimeUnit.SECONDS
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.scalatest.Assertions._

import org.apache.spark.sql.{DataFrame, Dataset, Encoder, Row}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.{MemoryStream, StreamExecution, StreamingQueryWrapper}
import org.apache.spark.sql.execution.streaming.state.OfflineStateRepartitionRunner
import org.apache.spark.sql.laneshift.driver.DriverState
import org.apache.spark.sql.laneshift.rescale.{LiveRescale, OfflineRescale, RescaleState, TakeOver}
import org.apache.spark.sql.streaming.StreamingQuery

/** A query in micro-batches, one per chunk of input, whose number of state partitions changes before some of them.
  *
  * @param changes partitions by number of the chunk
  */
final class RescaleRun(spark: ClassicSession, of: QueryCase, checkpoint: Path, changes: Map[Int, Int]) {
  private val input = {
    val session = spark
    import session.implicits._
    MemoryStream[TestInput](implicitly[Encoder[TestInput]], spark)
  }
  private val byBatch = new ConcurrentHashMap[Long, Seq[Row]]
  private val clock = new SteppedClock
  private var running: StreamingQuery = _
  private val counts = ArrayBuffer.empty[Seq[OperatorCounts]]
  val rescales = ArrayBuffer.empty[LiveRescale]

  /** The other side of the pair: stopped, repartitioned by Spark, and started again. */
  def stock(chunks: Seq[Seq[TestInput]]): RescaleResult = run(chunks) { i =>
    changes.get(i).foreach { partitions =>
      stop()
      new OfflineStateRepartitionRunner(spark, checkpoint.toString, partitions).run()
      start()
    }
  }

  /** The same with an offline rescale of laneshift's. */
  def stopped(chunks: Seq[Seq[TestInput]]): RescaleResult = run(chunks) { i =>
    changes.get(i).foreach { partitions =>
      stop()
      val done = OfflineRescale.run(spark, checkpoint.toString, partitions, check = true)
      assert(done.to == partitions && done.rows.nonEmpty)
      start()
    }
  }

  /** While it runs: the chunk before a change is what the new stores have to catch up with. */
  def live(chunks: Seq[Seq[TestInput]]): RescaleResult =
    try run(chunks) { i =>
        if (changes.contains(i)) letTakeOver()
        changes.get(i + 1).foreach(ask)
      }
    finally TakeOver.held = false

  /** The same with one change, which is asked for so many chunks before: its second old store is read when `meanwhile`, which is
    * called behind them, has returned.
    */
  def slow(chunks: Seq[Seq[TestInput]], early: Int)(meanwhile: () => Unit): RescaleResult = {
    val may = new CountDownLatch(1)
    val read = new AtomicInteger
    TakeOver.passed =
      step => if (step == "reading" && read.incrementAndGet() == 2) assert(may.await(60, SECONDS))
    try run(chunks) { i =>
        if (changes.contains(i)) {
          meanwhile()
          may.countDown()
          letTakeOver()
        }
        changes.get(i + early).foreach(ask)
      }
    finally {
      may.countDown()
      TakeOver.passed = _ => ()
      TakeOver.held = false
    }
  }

  /** The next batch begins it, and it takes over when it is let. */
  def ask(partitions: Int): Unit = {
    TakeOver.held = true
    rescales += RescaleRun.ask(running, partitions)
  }

  /** Before the next batch. */
  def letTakeOver(): Unit = {
    val newest = rescales.last
    Patience.until(running)(newest.state == RescaleState.Ready || newest.state.ended)
    assert(newest.state == RescaleState.Ready, newest.failure)
    TakeOver.held = false
  }

  /** Before this batch. */
  def takeOver(chunk: Seq[TestInput]): Unit = {
    letTakeOver()
    add(chunk)
    await()
    assert(rescales.last.state == RescaleState.Done, rescales.last.failure)
  }

  private def run(chunks: Seq[Seq[TestInput]])(before: Int => Unit): RescaleResult = {
    start()
    try {
      chunks.zipWithIndex.foreach { case (chunk, i) =>
        before(i)
        input.addData(chunk)
        await()
        if (changes.contains(i)) rescales.lastOption.foreach { r =>
          assert(r.state == RescaleState.Done, r.failure)
        }
      }
      if (of.stepped) (1 to SteppedClock.IdleSteps).foreach(_ => clock.step(running))
      val plan = MicroBatchRun.planOf(running)
      val state = MicroBatchRun.stateRows(spark, running, checkpoint)
      stop()
      RescaleResult(byBatch.asScala.toMap, counts.toSeq, state, plan)
    } finally running.stop()
  }

  def start(): StreamingQuery = {
    def sink(rows: Dataset[Row], id: Long): Unit = { byBatch.put(id, rows.collect().toSeq); () }
    running =
      if (of.stepped) clock.start(spark, of, input.toDF(), checkpoint)(sink)
      else MicroBatchRun.start(of, input.toDF(), checkpoint)(sink)
    running
  }

  def add(chunk: Seq[TestInput]): Unit = { input.addData(chunk); () }

  def await(): Unit = if (of.stepped) clock.step(running) else running.processAllAvailable()

  def stop(): Unit = {
    counts ++= MicroBatchRun.countsOf(running).filter(_.nonEmpty)
    running.stop()
  }

  def source: DataFrame = input.toDF()

  /** Of the newest run. */
  def query: StreamingQuery = running

  def rows: Map[Long, Seq[Row]] = byBatch.asScala.toMap
}

final case class RescaleResult(
    batches: Map[Long, Seq[Row]],
    counts: Seq[Seq[OperatorCounts]],
    state: Seq[String],
    plan: String
)

object RescaleRun {
  def execution(query: StreamingQuery): StreamExecution =
    query.asInstanceOf[StreamingQueryWrapper].streamingQuery

  def ask(query: StreamingQuery, partitions: Int, slots: Int = 1000): LiveRescale = {
    val runs = DriverState.get.get.runs
    // Known from its first plan on, if it is elastic, or else from Spark's event on.
    Patience.until(query)(runs.get(query.runId.toString).nonEmpty)
    runs.rescale(runs.get(query.runId.toString).get, execution(query), partitions, slots)
  }

  def same(stock: RescaleResult, live: RescaleResult, elastic: Boolean = true): Unit = {
    assert(!stock.plan.contains("Elastic ["), "the stock side is elastic")
    assert(live.plan.contains("Elastic [") == elastic, live.plan)
    assert(stock.batches.keySet == live.batches.keySet, "batches")
    stock.batches.keys.toSeq.sorted.foreach(b =>
      PairCheck.sameRows(s"batch $b", stock.batches(b), live.batches(b))
    )
    assert(stock.state == live.state, "state rows")
    assert(stock.counts == live.counts, "operator metrics")
  }
}
