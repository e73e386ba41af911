package org.apache.spark.sql.laneshift

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.driver.{DriverState, Run}
import org.apache.spark.sql.laneshift.runtime.Cores
import org.apache.spark.sql.laneshift.workload.WorkloadFunctions
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode, StreamingQuery}

import laneshift.testing.{Deep, LimitedSuite}

/** Row-wise work above an operator's state, done by any lane: stock's rows in stock's order, while shards move and lanes of both come
  * and go.
  */
class SpreadPairSuite extends LimitedSuite with ElasticSession {
  import SpreadPairSuite._

  private val spread = "spark.sql.laneshift.hotKeys.spread" -> "true"
  private val chunks = Seq(0, 400, 800).map(first => heated(TestInput.rows(seed = 31, first.toLong, 400)))

  private def isApart(plan: String): Boolean =
    "Elastic \\[(row-wise|shards)".r.findAllMatchIn(plan).map(_.group(1)).toSeq
      .containsSlice(Seq("row-wise", "shards"))

  private def checkApart(plan: String): Unit = assert(isApart(plan), plan)

  (aggregates ++ others).zipWithIndex.foreach { case (query, i) =>
    test(s"micro-batches: ${query.name}", Deep.Pairs.unless(Set(0, 5)(i)): _*) {
      checkApart(PairCheck.microBatch(spark, this, query, chunks, seed = 40L + i, spread).plan)
    }
  }

  test("micro-batches: with a row for each queue", Deep.Pairs) {
    PairCheck.microBatch(
      spark,
      this,
      others.head,
      chunks,
      seed = 60L,
      spread,
      "spark.sql.laneshift.queueBytes" -> "1k"
    )
  }

  test("state partitions in fewer tasks, another number in every batch", Deep.Pairs) {
    val drawn = "spark.sql.laneshift.motion.tasks" -> "true"
    checkApart(PairCheck.microBatch(spark, this, aggregates.head, chunks, seed = 61L, spread, drawn).plan)
    val rows = heated(TestInput.rows(seed = 32, first = 0, count = 1500, keys = 60))
    checkApart(PairCheck.realTime(spark, this, realTime.head, rows, seed = 62L, spread, drawn).plan)
  }

  realTime.zipWithIndex.foreach { case (query, i) =>
    test(s"Real-time Mode: ${query.name}", Deep.Pairs.unless(i == 0): _*) {
      val rows = heated(TestInput.rows(seed = 32, first = 0, count = 1500, keys = 60))
      checkApart(PairCheck.realTime(spark, this, query, rows, seed = 70L + i, spread).plan)
    }
  }

  for (real <- Seq(false, true))
    test(
      s"a function that fails fails the query with its own error, and a restart goes on, Real-time Mode: $real",
      Deep.Kills.unless(!real): _*
    ) {
      val fails = udf((id: Long) => if (id == 777 && failing) sys.error("row 777 fails") else id)
      val query = QueryCase("fails", if (real) "update" else "append")(
        _.dropDuplicates("key", "id").select(col("key"), fails(col("id")).as("id"))
      )
      withConf(ElasticSession.moving(80L) :+ spread: _*)(withFolder { at =>
        val life = if (real) new RealTimeLife(spark, query, at) else new MicroBatchLife(spark, query, at)
        failing = true
        life.add(chunks.flatten)
        val error = Causes.ofTask(real) {
          try intercept[Exception](life.await(life.start()))
          finally Leftovers.check()
        }
        assert(Causes(error).exists(_.contains("row 777 fails")), error)
        failing = false
        val again = life.start()
        try life.await(again)
        finally again.stop()
        Leftovers.check()
        val ids = life.rows.map(_.getLong(1))
        assert(ids.toSet == chunks.flatten.map(_.id).toSet)
        assert(real || ids.size == chunks.flatten.size)
      })
    }

  test("cheap work stays with the state, also where it is next to costly work") {
    def plan(query: QueryCase): String =
      withConf(ElasticSession.moving(1L) :+ spread: _*)(withFolder(MicroBatchRun(
        spark,
        query,
        chunks.take(1),
        _
      ).plan))
    val cheap =
      QueryCase("cheap", "update")(_.groupBy("key").agg(sum("value").as("s")).withColumn("t", col("s") + 1))
    assert(!plan(cheap).contains("Elastic [row-wise"))
    val both = QueryCase("both", "append")(
      _.dropDuplicates("key", "id").where("value > -1000").withColumn("f", slow(col("id"))).where("f > 3")
    )
    val found = plan(both)
    checkApart(found)
    // The filter of values is below, that of the function's results above.
    val filters = "Filter .*".r.findAllMatchIn(found).map(_.start).toSeq
    assert(filters.exists(_ > found.indexOf("Elastic [shards")), found)
    assert(filters.exists(_ < found.indexOf("Elastic [shards")), found)
  }

  test("with 'false', or below a limit, it stays with the state") {
    for (options <- Seq(Seq("spark.sql.laneshift.hotKeys.spread" -> "false"), Nil))
      withConf(ElasticSession.moving(1L) ++ options: _*) {
        assert(!withFolder(MicroBatchRun(
          spark,
          aggregates.head,
          chunks.take(1),
          _
        ).plan).contains("row-wise"))
      }
    val limited = QueryCase("limited", "complete")(input => aggregates(1).build(input).limit(5))
    withConf(ElasticSession.moving(1L) :+ spread: _*) {
      assert(!withFolder(MicroBatchRun(spark, limited, chunks.take(1), _).plan).contains("row-wise"))
    }
    val refused =
      intercept[IllegalArgumentException](withConf("spark.sql.laneshift.hotKeys.spread" -> "yes")(()))
    assert(refused.getMessage.contains("'auto', 'true' or 'false'"))
  }

  // ---- decided by measurements

  /** Each row gives an output, and each output waits. */
  private def waiting(micros: Int) = (query: QueryCase) =>
    QueryCase(query.name, query.outputMode)(
      query.build(_).withColumn("id", expr(s"${WorkloadFunctions.Cost}(id, double($micros), 'wait')"))
    )

  /** Rows of which all, or none, have a key with most of the others. */
  private def rows(batch: Int, hot: Boolean, count: Int = 900): Seq[TestInput] = {
    val drawn = TestInput.rows(seed = 33, batch * 10000L, count, keys = 1000)
    val even = drawn.map(row => row.copy(key = s"key-${row.id}"))
    if (hot) heated(even, of = 8) else even
  }

  private def notes(running: StreamingQuery): Seq[String] = DriverState.get.toSeq.flatMap(
    _.decisions.newest(1000).flatMap(_.notes).filter(_.contains(running.runId.toString)).reverse
  )

  private def batchesTold(running: StreamingQuery): Set[Long] =
    DriverState.get.flatMap(_.runs.get(running.runId.toString)).toSet
      .flatMap((run: Run) => run.batchLoads(operatorId = 0L).values.map(_.batchId))

  private def isApart(running: StreamingQuery): Boolean = isApart(MicroBatchRun.planOf(running))

  private def quietly[T](body: => T): T = {
    val load = Cores.machineLoad
    Cores.machineLoad = () => 0.0
    try body
    finally Cores.machineLoad = load
  }

  for (lanes <- Seq("4", "auto"))
    test(s"micro-batches: goes apart once a key is hot, and back when none is, lanes $lanes", Deep.Policies) {
      quietly(withConf("spark.sql.laneshift.lanes" -> lanes)(withFolder { at =>
        val life = new MicroBatchLife(spark, waiting(2000)(QueryCase("auto", "append")(byKey)), at)
        val running = life.start()
        var apart = Seq.empty[Boolean]
        var told = Set.empty[Long]
        try (0 until 16).foreach { i =>
            life.add(rows(i, hot = i >= 3 && i < 9))
            life.await(running)
            apart :+= isApart(running)
            // What the driver hears as a batch ends is of that batch, not of the one before.
            val news = batchesTold(running) -- told
            assert(news.subsetOf(Set(i.toLong)), s"after batch $i")
            told ++= news
          }
        finally running.stop()
        assert(!apart.take(4).contains(true), s"$apart ${notes(running)}")
        assert(apart(8) && !apart.last, s"$apart ${notes(running)}")
        assert(told.nonEmpty)
        assert(notes(running).size == 2 && notes(running).head.contains("a key has"), notes(running))
        assert(life.rows.map(_.getLong(1)).sorted == (0 until 16).flatMap(i =>
          rows(i, hot = false).map(_.id)
        ).sorted)
        Leftovers.check()
      }))
    }

  test("Real-time Mode: goes apart in a later batch, and takes the rows that come", Deep.Policies) {
    quietly(withConf("spark.sql.laneshift.lanes" -> "4")(withFolder { at =>
      val newest = QueryCase("newest", "update")(_.groupBy("key").agg(max("id").as("id")))
      val life = new RealTimeLife(spark, waiting(1000)(newest), at)
      val running = life.start()
      var added = Seq.empty[TestInput]
      def add(): Unit = {
        val more = rows(added.size / 1000, hot = true, count = 1000)
        added ++= more
        life.add(more)
        Thread.sleep(300)
      }
      try {
        Patience.until(running) { add(); isApart(running) }
        (0 until 10).foreach(_ => add())
        life.await(running)
      } finally running.stop()
      assert(notes(running).head.contains("row-wise work above the state goes to any lane"), notes(running))
      val ids = life.rows.filter(_.getString(0) == "hot").map(_.getLong(1))
      // Each row gives an output: the newest id, and the hot key's come in order.
      assert(life.rows.size == added.size)
      assert(ids == added.filter(_.key == "hot").map(_.id))
      Leftovers.check()
    }))
  }
}

object SpreadPairSuite {
  @volatile private[laneshift] var failing = false

  private def each(
      key: String,
      rows: Iterator[TestInput],
      seen: GroupState[Long]
  ): Iterator[(String, Long)] = {
    seen.update(seen.getOption.getOrElse(0L) + 1L)
    rows.map(row => (key, row.id))
  }

  /** Each row gives an output, with its key's state. */
  private def byKey(input: DataFrame): DataFrame = {
    import input.sparkSession.implicits._
    input.as[TestInput].groupByKey(_.key)
      .flatMapGroupsWithState[Long, (String, Long)](OutputMode.Append, GroupStateTimeout.NoTimeout)(each)
      .toDF("key", "id")
  }

  /** Lanes overtake each other. */
  private lazy val slow = udf { (n: Long) =>
    if (n % 13 == 0) Thread.sleep(1L)
    n * 3
  }

  /** The same rows, so many of ten with one key. */
  private def heated(rows: Seq[TestInput], of: Int = 6): Seq[TestInput] =
    rows.zipWithIndex.map { case (row, i) => if (i % 10 < of) row.copy(key = "hot", number = 4) else row }

  private val windowed = window(col("time"), "5 seconds")

  private val aggregates = Seq(
    QueryCase("counts and sums, update", "update")(
      _.groupBy("key").agg(count("*").as("n"), sum("value").as("s"), max("id").as("m")).withColumn(
        "f",
        slow(col("m"))
      )
    ),
    QueryCase("counts and sums, complete", "complete")(
      _.groupBy("key").agg(count("*").as("n"), sum("value").as("s")).withColumn("f", slow(col("n")))
    ),
    QueryCase("windowed, append", "append")(
      _.withWatermark("time", "3 seconds").groupBy(windowed, col("key")).agg(count("*").as("n"), sum("value"))
        .withColumn("f", slow(col("n"))).where("f > 3")
    ),
    QueryCase("collect_set and a generator that gives none or many", "update")(
      _.groupBy("number").agg(sort_array(collect_set("maybe")).as("all"), max("id").as("m"))
        .select(col("number"), slow(col("m")).as("f"), explode(col("all")).as("one"))
    ),
    QueryCase("decimal sums by struct key", "update")(
      _.groupBy("place").agg(
        sum("amount").as("s"),
        max("id").as("m")
      ).withColumn("f", slow(col("m")) + col("s"))
    )
  )

  private val others = Seq(
    QueryCase("dropDuplicates", "append")(
      _.dropDuplicates("key", "id").where("value > -400").withColumn("f", slow(col("id"))).where("f % 5 != 0")
        .select(col("key"), col("f"), explode(expr("sequence(1, number % 4)")).as("n"))
    ),
    QueryCase("groups with state", "append")(byKey(_).withColumn("f", slow(col("id")))),
    QueryCase("session windows", "append")(
      _.withWatermark("time", "3 seconds").groupBy(session_window(col("time"), "2 seconds"), col("key"))
        .agg(count("*").as("n")).withColumn("f", slow(col("n")))
    ),
    QueryCase("full outer join", "append")(
      JoinCases.join("full_outer")(_).withColumn("f", slow(coalesce(col("li"), col("ri"))))
    )
  )

  /** Every output begins with the key, as text. */
  private val realTime = Seq(
    QueryCase("counts and sums", "update")(
      _.groupBy("key").agg(count("*").as("n"), sum("value"), max("id").as("m")).withColumn(
        "f",
        slow(col("m"))
      )
    ),
    QueryCase("collect_set and decimals", "update")(
      _.groupBy(col("number").cast("string").as("k"))
        .agg(sort_array(collect_set("maybe")).as("all"), sum("amount"), avg("value"), max("id").as("m"))
        .select(col("k"), slow(col("m")), explode_outer(col("all")))
    ),
    QueryCase("dropDuplicates", "update")(
      _.dropDuplicates("key", "id").select(concat_ws("/", col("key"), col("id")), slow(col("id")).as("f"))
        .where("f % 5 != 0")
    )
  )
}
