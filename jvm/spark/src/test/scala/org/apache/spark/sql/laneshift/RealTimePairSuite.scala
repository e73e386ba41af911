package org.apache.spark.sql.laneshift

import org.apache.spark.sql.functions._

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

  test("groups that are too large to be kept in memory equal stock under motion") {
    val wide = QueryCase("wide groups", "update")(
      _.groupBy("key").agg(sort_array(collect_set(rpad(col("maybe"), 9000, "x"))), count("*"))
    )
    PairCheck.realTime(spark, this, wide, rows.take(700), seed = 11L)
  }

  test("with Spark's check of its list of operators on, a query stays stock and runs") {
    withConf(("spark.sql.streaming.realTimeMode.allowlistCheck" -> "true") +: ElasticSession.moving(1L): _*) {
      val run = withFolder(RealTimeRun(spark, cases.head, rows, _, Feed.AtOnce))
      assert(run.handoffs == 0 && run.batches.head.size == rows.size)
      assert(!run.plan.contains("Elastic"), run.plan)
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
