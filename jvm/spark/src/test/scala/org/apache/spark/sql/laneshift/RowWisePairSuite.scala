package org.apache.spark.sql.laneshift

import java.io.ByteArrayOutputStream
import java.nio.file.Path

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Dataset, Encoder, Row}
import org.apache.spark.sql.execution.streaming.runtime.{
  AsyncProgressTrackingMicroBatchExecution,
  MemoryStream
}
import org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
import org.apache.spark.sql.functions._

import laneshift.testing.{Deep, LimitedSuite}

/** Stages without state on lanes against stock Spark: the same rows in the same order, under constant change of the lanes. */
class RowWisePairSuite extends LimitedSuite with ElasticSession {

  private lazy val slow = udf { (id: Long) =>
    // Lanes overtake each other.
    if (id % 13 == 0) Thread.sleep(1L)
    id * 3
  }

  private def query(name: String)(build: DataFrame => DataFrame): QueryCase = QueryCase(name, "append")(build)

  private val several = query("several operators") {
    _.where(col("number") =!= 3)
      .withColumn("three", slow(col("id")))
      .where(col("three") % 5 =!= 0)
      .select(col("key"), col("id"), col("three"), col("maybe"), col("amount"), col("place"))
  }

  private val generated = query("generators that give none or many") {
    _.withColumn("three", slow(col("id")))
      .select(col("key"), col("id"), explode(expr("sequence(1, number % 4)")).as("n"))
      .where("n <= number % 4")
  }

  private val typed = query("typed functions") { input =>
    val session = spark
    import session.implicits._
    input.as[TestInput].filter(_.number != 2).map { row =>
      if (row.id % 17 == 0) Thread.sleep(1L)
      (row.key, row.id, row.maybe.orNull, row.place)
    }.toDF("key", "id", "maybe", "place")
  }

  private val wide = query("wide rows") {
    _.select(
      (Seq(col("key"), col("id"), slow(col("id")).as("three")) ++
        (0 until 200).map(i => concat(col("key"), lit("-" * (i * 3))).as(s"c$i"))): _*
    )
  }

  private val shuffled = query("behind a shuffle") {
    _.repartition(3, col("key")).withColumn("three", slow(col("id"))).select("key", "id", "three")
  }

  private val cases = Seq(several, generated, typed, wide)

  /** Typed functions are served by those who ask for it. */
  private def moving(seed: Long) =
    ElasticSession.moving(seed) :+ "spark.sql.laneshift.stateless" -> "true"

  // ---- micro-batches

  /** Each chunk is a batch, or some, of `partitions` source partitions; what each of them gives, in order. */
  private def microBatches(
      query: QueryCase,
      chunks: Seq[Seq[TestInput]],
      partitions: Int,
      at: Path
  ): (Seq[Row], String) = {
    val session = spark
    import session.implicits._
    val input = MemoryStream[TestInput](implicitly[Encoder[TestInput]], spark)
    val out = ArrayBuffer.empty[Row]
    // Rows are collected in the order of their partitions.
    def sink(rows: Dataset[Row], id: Long): Unit = out.synchronized { out ++= rows.collect(); () }
    val running = MicroBatchRun.start(query, input.toDF(), at)(sink)
    try {
      chunks.foreach { chunk =>
        // A partition for each call.
        chunk.grouped(math.max(1, chunk.size / partitions)).foreach(input.addData(_))
        running.processAllAvailable()
      }
      (out.toSeq, MicroBatchRun.planOf(running))
    } finally running.stop()
  }

  private val chunks = Seq(1500, 0, 1, 900).zipWithIndex.map { case (count, i) =>
    TestInput.rows(seed = 11, first = i * 2000L, count, keys = 40)
  }

  /** What stock Spark gives, to which laneshift's options are nothing. */
  private val stocks =
    scala.collection.mutable.Map.empty[(String, Int, Seq[(String, String)]), (Seq[Row], String)]

  private def pair(query: QueryCase, more: (String, String)*): Unit = pairOf(query, 2, more: _*)

  private def pairOf(query: QueryCase, partitions: Int, more: (String, String)*): Unit = {
    def side(options: Seq[(String, String)]) =
      withFolder(at => withConf(options ++ more: _*)(microBatches(query, chunks, partitions, at)))
    val own = more.filterNot(_._1.startsWith("spark.sql.laneshift."))
    val (stock, plan) = stocks.getOrElseUpdate((query.name, partitions, own), side(ElasticSession.Stock))
    val (elastic, elasticPlan) = side(moving(seed = 3))
    assert(!plan.contains("Elastic ["), plan)
    assert(elasticPlan.contains("Elastic [row-wise"), elasticPlan)
    assert(stock.nonEmpty)
    assert(stock.size == elastic.size, "number of rows")
    stock.zip(elastic).zipWithIndex.find { case ((a, b), _) => a != b }.foreach { case ((a, b), at) =>
      fail(s"row $at: $a and $b")
    }
  }

  cases.foreach(c =>
    test(s"micro-batches: ${c.name}, rows and their order", Deep.Pairs.unless(c != wide): _*)(pair(c))
  )

  test("micro-batches: with a row for each queue") {
    pair(several, "spark.sql.laneshift.queueBytes" -> "1k")
  }

  test("micro-batches: behind a shuffle") {
    // A batch for each chunk: where one batch ends and the next begins shows in the order.
    pairOf(shuffled, 1, "spark.sql.adaptive.enabled" -> "false")
  }

  test("a watermark in a row-wise region is stock's") {
    val counted = QueryCase("below an aggregation", "append") {
      _.withColumn("value", slow(col("value")))
        .withWatermark("time", "2 seconds")
        .withColumn("value", slow(col("value")))
        .groupBy(window(col("time"), "1 second"), col("key"))
        .agg(sum("value"), count("*"))
    }
    val result = PairCheck.microBatch(
      spark,
      this,
      counted,
      (0 until 4).map(i => TestInput.rows(seed = 12, first = i * 500L, count = 500, keys = 30)),
      seed = 5L
    )
    assert(result.counts.nonEmpty)
    val told = new ByteArrayOutputStream
    val session = spark
    import session.implicits._
    Console.withOut(told)(counted.build(MemoryStream[TestInput](
      implicitly[Encoder[TestInput]],
      spark
    ).toDF()).explain())
    assert("Elastic \\[(row-wise|shards)".r.findAllIn(told.toString).toSeq.size == 2, told)
  }

  // ---- Real-time Mode

  /** What each of two source partitions gives, in order: rows have the partition of their number. */
  private def realTime(query: QueryCase, rows: Seq[TestInput], at: Path): (Seq[Row], String) = {
    val session = spark
    import session.implicits._
    val input = LowLatencyMemoryStream[TestInput](spark, 2)
    val list = CollectingWriter.create()
    // Lanes change every few rows: nothing has to come between these.
    (0 to 1).foreach(p => input.addData(p, rows.filter(_.number % 2 == p)))
    val writer = new CollectingWriter(list)
    val running = RealTimeRun.start(query.build(input.toDF()), "update", at, writer, RealTimeRun.Short)
    // Spark's default where there is no state.
    assert(RescaleRun.execution(running).isInstanceOf[AsyncProgressTrackingMicroBatchExecution])
    try {
      Patience.until(running) {
        running.recentProgress.map(_.numInputRows).sum >= rows.size && running.lastProgress.numInputRows == 0
      }
      (CollectingWriter.lists(list).asScala.toSeq, MicroBatchRun.planOf(running))
    } finally {
      running.stop()
      CollectingWriter.lists.remove(list)
    }
  }

  cases.foreach { c =>
    test(
      s"Real-time Mode: ${c.name}, rows and their order",
      Deep.Pairs.unless(c == several || c == generated): _*
    ) {
      val rows = TestInput.rows(seed = 13, first = 0, count = 3000, keys = 40)
      def side(options: Seq[(String, String)]) =
        withFolder(at => withConf(options: _*)(realTime(c, rows, at)))
      val (stock, _) = side(ElasticSession.Stock)
      val (elastic, plan) = side(moving(seed = 4))
      assert(plan.contains("Elastic [row-wise"), plan)
      PairCheck.sameRows(c.name, stock, elastic)
      // A key is in one source partition, and so in the order of its ids.
      PairCheck.sameOrderPerKey(c.name, stock, elastic)
    }
  }

  // ---- failures, options

  test("a function that fails fails the query with its own error, and a restart goes on") {
    val failing = query("fails") {
      _.withColumn(
        "three",
        udf((id: Long) => if (id == 777 && RowWisePairSuite.fails) sys.error("row 777 fails") else id).apply(
          col("id")
        )
      )
        .select("key", "id", "three")
    }
    val rows = Seq(TestInput.rows(seed = 14, first = 0, count = 1500))
    withConf(ElasticSession.moving(seed = 6): _*) {
      withFolder { at =>
        RowWisePairSuite.fails = true
        val error = intercept[Exception](microBatches(failing, rows, 1, at))
        val causes = Causes(error)
        assert(causes.exists(_.contains("row 777 fails")), causes)
        RowWisePairSuite.fails = false
        val (out, _) = microBatches(failing, rows, 1, at)
        assert(out.map(_.getLong(1)) == rows.flatten.map(_.id))
      }
    }
  }

  test("spark.sql.laneshift.stateless says which stages are served") {
    val cheap = query("cheap") {
      _.where(!col("key").isin("key-1", "key-2") && col("place.city").startsWith("c")).select(
        upper(substring(col("key"), 1, 2)).as("key"),
        (col("id") + 1).as("id"),
        (hash(col("id")) % 3).as("h"),
        window(col("time"), "10 seconds").as("w"),
        struct(col("place"), length(col("key"))).as("s"),
        date_format(col("time"), "yyyy-MM-dd").as("d"),
        sqrt(col("number")).as("r")
      )
    }
    // Without a watermark, or the last batch would have no rows to be dealt.
    val sessions = QueryCase("sessions", "complete") {
      _.groupBy(session_window(col("time"), "2 seconds"), col("key")).count()
    }
    val costly = Seq(
      col("key").rlike("a+"),
      regexp_replace(col("key"), "a", "b"),
      get_json_object(col("key"), "$.a"),
      explode(split(col("key"), "-"))
    )
    def plan(of: QueryCase, stateless: String): String = withFolder { at =>
      withConf("spark.sql.laneshift.stateless" -> stateless)(microBatches(of, chunks.take(1), 1, at)._2)
    }
    assert(plan(several, "auto").contains("Elastic [row-wise"))
    assert(!plan(cheap, "auto").contains("Elastic ["))
    assert(plan(cheap, "true").contains("Elastic [row-wise"))
    assert(!plan(sessions, "auto").contains("Elastic [row-wise"))
    costly.foreach { column =>
      val one = query("costly")(_.select(column.as("c")))
      assert(plan(one, "auto").contains("Elastic [row-wise"), column)
    }
    assert(!plan(several, "false").contains("Elastic ["))
    val filtered = query("filtered") { input =>
      val session = spark
      import session.implicits._
      input.as[TestInput].filter((row: TestInput) => row.number != 2).toDF().withColumn(
        "three",
        slow(col("id"))
      )
    }
    Seq(typed, filtered).foreach(of => assert(!plan(of, "auto").contains("Elastic ["), of.name))
    val refused = intercept[IllegalArgumentException](withConf("spark.sql.laneshift.stateless" -> "yes")(()))
    assert(refused.getMessage.contains("'auto', 'true' or 'false'"))
  }

  test("a stream joined with itself is read once, as on stock Spark") {
    val self = query("self-join") { rows =>
      val one = rows.withColumn("three", slow(col("id")))
      one.as("a").join(one.as("b"), expr("a.id = b.id")).select("a.id", "a.three", "b.three")
    }
    def reused(options: Seq[(String, String)]): (Int, String) = {
      val plan = withFolder(at => withConf(options: _*)(microBatches(self, chunks.take(1), 1, at)._2))
      ("ReusedExchange \\[".r.findAllMatchIn(plan).size, plan)
    }
    val (stock, elastic) = (reused(ElasticSession.Stock), reused(ElasticSession.moving(1)))
    assert(stock._1 == 1, stock._2)
    assert(elastic._1 == 1 && elastic._2.contains("Elastic [row-wise"), elastic._2)
  }

  test("what knows more than its row stays stock") {
    def plan(of: QueryCase): String =
      withFolder(at => withConf(ElasticSession.moving(1): _*)(microBatches(of, chunks.take(1), 1, at)._2))
    Seq(
      query("partition")(_.select(col("key"), spark_partition_id().as("n"))),
      query("random")(_.select(col("key"), rand(5L).as("n"))),
      query("not deterministic")(_.select(col("key"), udf(() => 1L).asNondeterministic().apply().as("n")))
    ).foreach(c => assert(!plan(c).contains("Elastic ["), c.name))
  }

  test("batch queries of the same functions are left alone, also in foreachBatch") {
    withConf(ElasticSession.moving(1): _*) {
      assert(
        !spark.range(100).select(slow(col("id"))).queryExecution.executedPlan.toString.contains("Elastic [")
      )
      val session = spark
      import session.implicits._
      val input = MemoryStream[TestInput](implicitly[Encoder[TestInput]], spark)
      val plans = ArrayBuffer.empty[String]
      withFolder { at =>
        val running =
          MicroBatchRun.start(query("sink")(_.select("key", "id")), input.toDF(), at) { (rows, _) =>
            val more = rows.select(slow(col("id")))
            more.collect()
            plans += more.queryExecution.executedPlan.toString
            ()
          }
        try {
          input.addData(chunks.head)
          running.processAllAvailable()
        } finally running.stop()
      }
      assert(plans.nonEmpty && !plans.exists(_.contains("Elastic [")), plans)
    }
  }
}

object RowWisePairSuite {
  @volatile var fails = false
}
