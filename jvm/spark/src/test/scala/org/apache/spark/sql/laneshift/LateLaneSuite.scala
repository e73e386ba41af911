package org.apache.spark.sql.laneshift

import org.apache.spark.sql.{Encoder, Encoders}
import org.apache.spark.sql.expressions.Aggregator
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.body.ShardOfHash
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}

import laneshift.testing.{Deep, DeepSuite, LimitedSuite}

/** A sum that takes its time to merge values of a million and more: its lane is late, whatever the machine does. */
object LateSum extends Aggregator[Long, Long, Long] {
  val Late = 1000000L
  override def zero: Long = 0L
  override def reduce(sum: Long, value: Long): Long = sum + value
  override def merge(a: Long, b: Long): Long = {
    if (b >= Late) Thread.sleep(15L)
    a + b
  }
  override def finish(sum: Long): Long = sum
  override def bufferEncoder: Encoder[Long] = Encoders.scalaLong
  override def outputEncoder: Encoder[Long] = Encoders.scalaLong
}

/** Whatever a lane's lateness lets others see or say too early: answers, state and metrics stay stock Spark's. */
class LateLaneSuite extends LimitedSuite with ElasticSession with DeepSuite {
  override def room: Deep = Deep.Motion

  test("complete mode")(lateLane(late))
  test("complete mode, checkpoint ids")(lateLane(late, format))
  test("update mode")(lateLane(changed))
  test("update mode, lanes elsewhere")(lateLane(changed, elsewhere: _*))
  test("sessions that end")(lateLane(sessions))
  test("timers")(lateLane(timers))
  test("overdue timers, lanes elsewhere") {
    PairCheck.microBatch(spark, this, overdue, pairChunks, seed = 8L, elsewhere: _*)
  }
  test("a lane restart")(lateLane(within, restarts: _*))
  test("a sink that takes only some rows") {
    assert(stateOfSome(ElasticSession.Stock) == stateOfSome(twoLanes), "state rows")
  }
  test("Real-time Mode, state and order")(realTime())

  private val twoLanes = Seq(
    "spark.sql.laneshift.enabled" -> "true",
    "spark.sql.laneshift.lanes" -> "2",
    "spark.sql.laneshift.maxLanes" -> "2",
    "spark.sql.laneshift.shardsPerPartition" -> "16",
    "spark.sql.laneshift.balance.enabled" -> "false"
  )

  private val late = QueryCase("late lane", "complete") { input =>
    input.groupBy("key").agg(udaf(LateSum).apply(col("value")), count("*"))
  }

  private val changed = QueryCase("late lane, update mode", "update")(late.build)

  private val sessions = QueryCase("sessions", "append") { input =>
    input.withWatermark(
      "time",
      "1 second"
    ).groupBy(session_window(col("time"), "100 milliseconds"), col("key")).count()
  }

  private def lateTimers(name: String, still: Boolean) = QueryCase(name, "append") { input =>
    val session = spark
    import session.implicits._
    input
      .withWatermark("time", "100 milliseconds")
      .as[TestInput]
      .groupByKey(_.key)
      .transformWithState(new LateTimers(still), TimeMode.EventTime(), OutputMode.Append())
      .toDF()
  }

  private val timers = lateTimers("timers", still = true)
  private val overdue = lateTimers("timers where shards move", still = false)

  private val within = QueryCase("within watermark", "append") { input =>
    input.withWatermark("time", "100 milliseconds").dropDuplicatesWithinWatermark("key").select("key", "id")
  }

  /** The task's thread runs the one lane, and goes over to threads at its first row: a lane restart. What the watermark has
    * passed is still there then, as no batch without rows has come between.
    */
  private val restarts = Seq(
    "spark.sql.laneshift.lanes" -> "1",
    "spark.sql.laneshift.motion" -> "always",
    "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"
  )

  private val format = "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2"

  /** Two lanes over the network. */
  private val elsewhere = Seq(
    "spark.sql.laneshift.motion" -> "always",
    "spark.sql.laneshift.motion.remoteLanes" -> "2",
    format
  )

  /** Keys of lane 1 are late: lane 0 scans and seals while lane 1 has not yet written. */
  private lazy val lateChunks: Seq[Seq[TestInput]] = {
    val shards = new ShardOfHash(3, 16)
    val lane = spark
      .range(60)
      .selectExpr("concat('key-', id) as k")
      .selectExpr("k", "hash(k)")
      .collect()
      .map(r => r.getString(0) -> shards(r.getInt(1)) % 2)
      .toMap
    Seq(0, 120).map(first =>
      TestInput
        .rows(seed = 5, first.toLong, 120, keys = 60)
        .map(r => r.copy(value = if (lane(r.key) == 1) LateSum.Late + r.id else r.id))
    )
  }

  private def runLate(query: QueryCase, options: Seq[(String, String)]): RunResult =
    withFolder(at => withConf(options: _*)(MicroBatchRun(spark, query, lateChunks, at)))

  private val lateStock = scala.collection.mutable.Map.empty[(String, Seq[(String, String)]), RunResult]

  private def lateLane(query: QueryCase, more: (String, String)*): Unit = {
    val stock = lateStock.getOrElseUpdate((query.name, more), runLate(query, more ++ ElasticSession.Stock))
    val elastic = runLate(query, twoLanes ++ more)
    assert(elastic.plan.contains("Elastic ["))
    assert(stock.batches.size == elastic.batches.size, "number of batches")
    stock.batches.zip(elastic.batches).foreach { case (a, b) => PairCheck.sameRows("late lane", a, b) }
    assert(stock.state == elastic.state, "state rows")
    assert(stock.counts == elastic.counts, "operator metrics")
  }

  /** Spark's operator commits before its first row: a limit above it is done while the late lane has not committed. */
  private val some = QueryCase("limit above a late lane", "complete")(late.build(_).limit(5))

  private def stateOfSome(options: Seq[(String, String)]): Seq[String] =
    withFolder(at => withConf(options: _*)(MicroBatchRun(spark, some, lateChunks, at).state))

  private val pairChunks = Seq(0, 300).map(first => TestInput.rows(seed = 4, first.toLong, 300, keys = 6))

  /** Some keys take their time, yet less than a lane keeps outputs back: what it holds of other keys when it lets them go is
    * late, and the lane that gets them has nothing else to do.
    */
  private val running = QueryCase("running sums", "update") {
    _.groupBy("key")
      .agg(count("*").as("rows"), sum("value"), max("id"))
      .withColumn(
        "rows",
        when(col("key").endsWith("1"), expr("laneshift_cost(rows, 400, 'wait')")).otherwise(col("rows"))
      )
  }
  private val runningRows = TestInput.rows(seed = 6, first = 0, count = 12000, keys = 20)

  private def runRealTime(options: Seq[(String, String)]): (Seq[org.apache.spark.sql.Row], Seq[String]) =
    withFolder { at =>
      withConf(options: _*) {
        val life = new RealTimeLife(spark, running, at, "1 second")
        val state = life.run(runningRows)
        (life.rows, state)
      }
    }

  private lazy val runningStock = runRealTime(ElasticSession.Stock)

  private def realTime(): Unit = {
    val (stockRows, stockState) = runningStock
    val (rows, state) = runRealTime(ElasticSession.moving(7L))
    PairCheck.sameRows("running sums", stockRows, rows)
    PairCheck.sameOrderPerKey("running sums", stockRows, rows)
    assert(stockState == state, "state rows")
  }
}
