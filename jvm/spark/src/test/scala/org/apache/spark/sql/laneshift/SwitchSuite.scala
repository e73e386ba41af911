package org.apache.spark.sql.laneshift

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions._

import laneshift.testing.{Deep, LimitedSuite}

/** One checkpoint, by turns under stock Spark and elastic under motion: rows and state as in a life with stock Spark only. */
class SwitchSuite extends LimitedSuite with ElasticSession {
  private val changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
  private val format = "spark.sql.streaming.stateStore.checkpointFormatVersion"

  private val sums = QueryCase("windowed sums", "append")(
    _.withWatermark("time", "2 seconds")
      .groupBy(window(col("time"), "4 seconds"), col("key"))
      .agg(count("*"), sum("value"), collect_set("number").as("s"))
      .withColumn("s", sort_array(col("s")))
  )
  private val dedup = QueryCase("dedup", "append")(_.dropDuplicates("key", "number"))
  private val running = QueryCase("running sums", "update")(
    _.groupBy("key").agg(count("*"), sum("value"), max("id")).select("*")
  )

  private val chunks = (0 until 4).map(i => TestInput.rows(seed = 11, i * 250L, 250))
  private def elastic(seed: Long) = ElasticSession.moving(seed)

  /** Each turn of the checkpoint's life in another way; rows over the whole life and the state after each turn. */
  private def live(life: Life, turns: Seq[Seq[(String, String)]]): (Seq[Row], Seq[Seq[String]]) = {
    val states = turns.zip(chunks).map { case (options, chunk) => withConf(options: _*)(life.run(chunk)) }
    (life.rows, states)
  }

  private def microBatch(query: QueryCase, turns: Seq[Seq[(String, String)]]) =
    withFolder(at => live(new MicroBatchLife(spark, query, at), turns))

  private def realTime(turns: Seq[Seq[(String, String)]]) =
    withFolder(at => live(new RealTimeLife(spark, running, at), turns))

  private def stock(query: QueryCase) = microBatch(query, Seq.fill(4)(ElasticSession.Stock))
  private lazy val stockSums = stock(sums)
  private lazy val stockDedup = stock(dedup)

  private def same(what: String, a: (Seq[Row], Seq[Seq[String]]), b: (Seq[Row], Seq[Seq[String]])): Unit = {
    PairCheck.sameRows(what, a._1, b._1)
    a._2.zip(b._2).zipWithIndex.foreach { case ((x, y), i) => assert(x == y, s"$what: state after turn $i") }
  }

  private def byTurns(first: Boolean): Seq[Seq[(String, String)]] =
    Seq.tabulate(4)(i => if ((i % 2 == 0) == first) elastic(i.toLong) else ElasticSession.Stock)

  for (log <- Seq("false", "true"); version <- Seq("1", "2"))
    test(
      s"windowed sums, micro-batch, changelog $log, checkpoint format $version",
      Deep.Pairs.unless(log == "true" && version == "2"): _*
    ) {
      withConf(changelog -> log, format -> version) {
        same("windowed sums", stockSums, microBatch(sums, byTurns(first = version == "1")))
      }
    }

  for (first <- Seq(true, false))
    test(s"dedup, micro-batch, ${if (first) "elastic" else "stock"} first", Deep.Pairs) {
      same("dedup", stockDedup, microBatch(dedup, byTurns(first)))
    }

  test("the changelog is switched on in the middle of a life", Deep.Pairs) {
    val turns = byTurns(first = true).zipWithIndex.map { case (t, i) =>
      t :+ (changelog -> (i >= 2).toString)
    }
    same("dedup", stockDedup, microBatch(dedup, turns))
  }

  test("the number of shards changes at every start") {
    val turns =
      Seq(16, 5, 64, 1).map(n => elastic(n.toLong) :+ ("spark.sql.laneshift.shardsPerPartition" -> s"$n"))
    same("windowed sums", stockSums, microBatch(sums, turns))
  }

  test("windowed sums, lanes over the network and stock, by turns", Deep.Pairs) {
    val elsewhere = "spark.sql.laneshift.motion.remoteLanes" -> "2"
    val turns =
      byTurns(first = true).map(turn => if (turn == ElasticSession.Stock) turn else turn :+ elsewhere)
    withConf(format -> "2")(same("windowed sums", stockSums, microBatch(sums, turns)))
  }

  test("state of another query is refused as on stock Spark, if the check of schemas lets it pass") {
    val counts = QueryCase("counts", "update")(_.groupBy("key").count())
    for (options <- Seq(ElasticSession.Stock, elastic(1)))
      withConf(options :+ "spark.sql.streaming.stateStore.stateSchemaCheck" -> "false": _*) {
        withFolder { at =>
          new MicroBatchLife(spark, counts, at).run(chunks.head)
          val other = new MicroBatchLife(spark, running, at)
          other.add(chunks.head)
          val causes = Causes(intercept[Exception](other.run(chunks(1))))
          assert(
            causes.exists(_.contains("STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE")),
            s"$options: $causes"
          )
        }
      }
  }

  test("running sums, Real-time Mode, by turns", Deep.Pairs) {
    same("running sums", realTime(Seq.fill(4)(ElasticSession.Stock)), realTime(byTurns(first = true)))
  }
}
