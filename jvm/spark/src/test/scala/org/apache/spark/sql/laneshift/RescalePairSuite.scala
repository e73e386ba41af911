package org.apache.spark.sql.laneshift

import org.apache.spark.sql.functions._

import laneshift.testing.{Deep, LimitedSuite}

/** A query whose state partitions change while it runs, and one that is stopped, repartitioned by Spark and started again:
  * the same rows in each batch, the same bytes of state in the same partitions, the same counts.
  */
class RescalePairSuite extends LimitedSuite with ElasticSession {
  private val changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
  private val format = "spark.sql.streaming.stateStore.checkpointFormatVersion"
  private val joins = "spark.sql.streaming.join.stateFormatVersion"
  private val chunks = (0 until 5).map(i => TestInput.rows(seed = 31, i * 250L, 250))

  /** 3 partitions at first. */
  private val changes = Map(2 -> 5, 4 -> 2)

  private def pair(query: QueryCase, seed: Long, more: (String, String)*): Unit = {
    val stock = withFolder(at =>
      withConf(ElasticSession.Stock ++ more: _*)(new RescaleRun(spark, query, at, changes).stock(chunks))
    )
    val live = withFolder(at =>
      withConf(ElasticSession.moving(seed) ++ more: _*)(new RescaleRun(
        spark,
        query,
        at,
        changes
      ).live(chunks))
    )
    RescaleRun.same(stock, live)
    assert(stock.state.forall(_.matches("(?s)\\d+( [^/]*)?/[01]: .*")), "partitions of the state")
  }

  private val sums = QueryCase("windowed sums", "append")(
    _.withWatermark("time", "2 seconds")
      .groupBy(window(col("time"), "4 seconds"), col("key"))
      .agg(count("*"), sum("value"), collect_set("number").as("s"))
      .withColumn("s", sort_array(col("s")))
  )

  for ((log, version, i) <- Seq(("false", "1", 0), ("true", "1", 1), ("false", "2", 2), ("true", "2", 3)))
    test(
      s"windowed sums, changelog $log, checkpoint format $version",
      Deep.Pairs
    ) {
      pair(sums, i.toLong, changelog -> log, format -> version)
    }

  /** Batches with rows follow each other at once: the watermark rises with the take-over between them. */
  test("windowed sums, the watermark rises")(pair(sums.copy(stepped = true)(sums.build), 5L, format -> "2"))

  /** That of sources with names. */
  test("windowed sums, an offset log of version 2", Deep.Pairs) {
    pair(sums, 6L, "spark.sql.streaming.offsetLog.formatVersion" -> "2", format -> "2")
  }

  private val cases = Seq(
    QueryCase("complete sums", "complete")(_.groupBy("key").agg(count("*"), sum("value"))) -> "2",
    QueryCase("dropDuplicates", "append")(_.dropDuplicates("key", "number")) -> "1",
    SessionWindowPairSuite.cases.head -> "1",
    GroupStatePairSuite.cases.find(_.name.contains("update, event-time")).get -> "2"
  ) ++ TransformWithStatePairSuite.cases.drop(2).zip(Seq(
    "1",
    "2",
    "1"
  )) :+ (TransformWithStatePairSuite.cases.head -> "2")

  cases.zipWithIndex.foreach { case ((query, version), i) =>
    test(
      s"${query.name}, checkpoint format $version",
      Deep.Pairs.unless(i == 3): _*
    )(pair(query, i + 10L, format -> version))
  }

  for (
    (how, state, version) <-
      Seq(("left_outer", "2", "1"), ("full_outer", "3", "2"), ("right_outer", "3", "1"))
  )
    test(
      s"$how join, state format $state, checkpoint format $version",
      Deep.Pairs.unless(how == "full_outer"): _*
    ) {
      val query = QueryCase(how, "append")(JoinCases.join(how)(_))
      pair(query, 21L, joins -> state, format -> version)
    }

  for (
    (name, of, state, version, log) <- Seq(
      ("sums", VersionChecks.sums, "2", "1", "true"),
      ("variables", VersionChecks.variables, "2", "2", "true"),
      ("a join in state format 2", VersionChecks.join(dated = false), "2", "2", "false"),
      ("a join in state format 3", VersionChecks.join(dated = true), "3", "1", "false")
    )
  )
    test(
      s"$name read around take-overs, checkpoint format $version, changelog $log",
      Deep.Pairs.unless(name == "variables"): _*
    ) {
      VersionChecks.sameAsStock(this, of, joins -> state, format -> version, changelog -> log)()
    }

  test("several operators in one query", Deep.Pairs) {
    pair(JoinCases.chains.map(_._1).find(_.name.startsWith("deduplication, then")).get, 22L, format -> "2")
  }
}
