package org.apache.spark.sql.laneshift

import org.apache.spark.sql.functions._

import laneshift.testing.{Deep, LimitedSuite}

/** Each query runs on stock Spark and elastic under constant motion: same rows per batch, same state, same counts. */
class MicroBatchPairSuite extends LimitedSuite with ElasticSession {
  import MicroBatchPairSuite.cases
  private val chunks = TestInput.chunks

  cases.zipWithIndex.foreach { case (query, i) =>
    test(s"${query.name} equals stock under motion", Deep.Pairs) {
      PairCheck.microBatch(spark, this, query, chunks, seed = i.toLong)
    }
  }

  // Spark then evicts all along the input: shards wait for the batch's end.
  cases.filter(_.name.contains("atermark")).foreach { query =>
    test(
      s"${query.name} equals stock under motion where it evicts as rows come",
      Deep.Pairs.unless(query == cases.last): _*
    ) {
      val evicting = "spark.sql.streaming.statefulOperator.incrementalCleanupFactor" -> "2"
      val run = PairCheck.microBatch(spark, this, query, chunks, seed = 20L, evicting)
      assert(run.plan.contains("handoff between-batches"), run.plan)
      assert(run.midBatchHandoffs == 0)
    }
  }

  // Spark has the last step of an aggregation compute what is above it.
  test("uuid() and rand() above an aggregation are others in each row") {
    val made = Seq("uuid()", "rand()", "rand(7)")
    val query = QueryCase("random columns", "update")(
      _.groupBy("key").agg(sum("value").as("s")).withColumns(made.map(m => m -> expr(m)).toMap)
    )
    val run = withFolder(at =>
      withConf(ElasticSession.moving(21L): _*)(MicroBatchRun(spark, query, chunks.take(1), at))
    )
    assert(run.plan.contains("Elastic ["), run.plan)
    val rows = run.batches.flatten
    made.foreach(m => assert(rows.size > 50 && rows.map(_.getAs[Any](m)).distinct.size == rows.size, m))
  }

  test("also where that aggregation is below another operator with state") {
    val query = QueryCase("random column below", "append")(
      _.withWatermark(
        "time",
        "3 seconds"
      ).groupBy(window(col("time"), "5 seconds"), col("key")).agg(sum("value"))
        .withColumn("made", expr("uuid()")).dropDuplicates("window", "key")
    )
    val run =
      withFolder(at => withConf(ElasticSession.moving(22L): _*)(MicroBatchRun(spark, query, chunks, at)))
    assert(
      run.plan.contains("Elastic [") && run.plan.contains("between the stateful operator and its shuffle"),
      run.plan
    )
    val made = run.batches.flatten.map(_.getAs[String]("made"))
    assert(made.size > 50 && made.distinct.size == made.size)
  }
}

/** Aggregations and deduplications. */
object MicroBatchPairSuite {
  private val windowed = window(col("time"), "5 seconds")

  val cases = Seq(
    QueryCase("counts and sums, update", "update")(
      _.groupBy("key").agg(count("*"), sum("value"), min("id"), max("id"))
    ),
    QueryCase("counts and sums, complete", "complete")(_.groupBy("key").agg(count("*"), sum("value"))),
    QueryCase("windowed, append", "append")(
      _.withWatermark("time", "3 seconds").groupBy(windowed, col("key")).agg(count("*"), sum("value"))
    ),
    QueryCase("windowed, update", "update")(
      _.withWatermark("time", "3 seconds").groupBy(windowed, col("number")).agg(count("*"), avg("value"))
    ),
    QueryCase("collect_set", "update")(
      _.groupBy("number").agg(sort_array(collect_set("maybe")), approx_count_distinct("key"))
    ),
    QueryCase("decimal sums by struct key", "update")(
      _.groupBy("place").agg(sum("amount"), min("amount"), max("amount"))
    ),
    QueryCase("null keys", "update")(_.groupBy("maybe", "number").agg(count("*"), sum("value"))),
    QueryCase("projection above", "update")(
      _.groupBy("key").agg(sum("value").as("s")).select(
        col("key"),
        col("s") * 2,
        length(col("key"))
      ).where("s > 0")
    ),
    QueryCase("dropDuplicates", "append")(_.dropDuplicates("key", "number")),
    QueryCase("dropDuplicates with watermark", "append")(
      _.withWatermark("time", "3 seconds").dropDuplicates("key", "time")
    ),
    QueryCase("dropDuplicatesWithinWatermark", "append")(
      _.withWatermark("time", "3 seconds").dropDuplicatesWithinWatermark("key", "number")
    )
  )
}
