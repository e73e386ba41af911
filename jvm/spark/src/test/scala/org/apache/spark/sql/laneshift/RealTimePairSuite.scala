package org.apache.spark.sql.laneshift

import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.plan.{ElasticPlanRule, RealTimeAllowlist, StockExec}
import org.apache.spark.sql.streaming.StreamingQueryException

import laneshift.testing.{Deep, LimitedSuite}

/** Real-time Mode: stock and elastic under constant motion give the same rows, in the same order per key. */
class RealTimePairSuite extends LimitedSuite with ElasticSession {
  import RealTimePairSuite.cases

  private val rows = TestInput.realTime

  cases.zipWithIndex.foreach { case (query, i) =>
    test(s"${query.name} equals stock under motion", Deep.Pairs) {
      PairCheck.realTime(spark, this, query, rows, seed = i.toLong)
    }

    test(s"${query.name} equals stock under motion by the clock", Deep.Motion) {
      val more = TestInput.rows(seed = 2, first = 0, count = 4000, keys = 60)
      PairCheck.realTimeByClock(spark, this, query, more, seed = i.toLong)
    }
  }

  test("uuid() above an aggregation is another one in each row") {
    val query = QueryCase("uuid", "update")(
      _.groupBy("key").agg(sum("value").as("s")).withColumn("at", expr("uuid()"))
    )
    val run = withFolder(at =>
      withConf(ElasticSession.moving(12L): _*)(RealTimeRun(spark, query, rows, at, Feed.AtOnce))
    )
    assert(run.plan.contains("Elastic ["), run.plan)
    val made = run.batches.flatten.map(_.getAs[Any]("at"))
    assert(made.nonEmpty && made.distinct.size == made.size)
  }

  test("groups that are too large to be kept in memory equal stock under motion") {
    val wide = QueryCase("wide groups", "update")(
      _.groupBy("key").agg(sort_array(collect_set(rpad(col("maybe"), 9000, "x"))), count("*"))
    )
    PairCheck.realTime(spark, this, wide, rows.take(700), seed = 11L)
  }

  test(
    "an operator of the user's that is not on Spark's list is refused as by stock Spark, and no other is named"
  ) {
    val gathered = QueryCase("gathered", "update")(_.groupBy("key").agg(count("*")).coalesce(1))
    def refused(options: Seq[(String, String)]): String = withConf(options: _*) {
      val error =
        intercept[StreamingQueryException](withFolder(RealTimeRun(spark, gathered, rows, _, Feed.AtOnce)))
      error.getCause.getMessage
    }
    val stock = refused(ElasticSession.Stock)
    assert(stock.contains("CoalesceExec"), stock)
    assert(refused(ElasticSession.moving(1L)) == stock)
  }

  test("where Spark's list cannot be added to, a query stays stock and runs, also when planning it fails") {
    def stays(): Unit = withConf(ElasticSession.moving(1L): _*) {
      val run = withFolder(RealTimeRun(spark, cases.head, rows, _, Feed.AtOnce))
      assert(run.handoffs == 0 && run.batches.head.size == rows.size)
      assert(!run.plan.contains("Elastic") && !run.plan.contains("Stock"), run.plan)
    }
    // The list itself may be compiled into Spark's check by now.
    val sparks = RealTimeAllowlist.check
    RealTimeAllowlist.check = plan => {
      if (plan.exists(_.isInstanceOf[StockExec])) throw new IllegalArgumentException("not on the list")
      sparks(plan)
    }
    try {
      stays()
      ElasticPlanRule.planning = () => throw new IllegalStateException("as a test has it")
      stays()
    } finally {
      ElasticPlanRule.planning = () => ()
      RealTimeAllowlist.check = sparks
    }
  }
}

/** Queries of Real-time Mode. Every output begins with the key, as text. */
object RealTimePairSuite {
  val cases = Seq(
    QueryCase("counts and sums", "update")(
      _.groupBy("key").agg(count("*"), sum("value"), max("id")).select("*")
    ),
    QueryCase("collect_set and decimals", "update")(
      _.groupBy(col("number").cast("string").as("k")).agg(
        sort_array(collect_set("maybe")),
        sum("amount"),
        avg("value")
      )
    ),
    QueryCase("windowed with projection above", "update")(
      _.withWatermark("time", "20 seconds")
        .groupBy(window(col("time"), "10 seconds"), col("key"))
        .agg(count("*").as("n"))
        .select(concat(col("key"), lit("@"), col("window.start")), col("n") * 10)
    ),
    QueryCase("dropDuplicates", "update")(_.dropDuplicates("key", "number").select("key", "id"))
  )
}
