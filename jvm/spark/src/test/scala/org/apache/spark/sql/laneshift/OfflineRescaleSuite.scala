package org.apache.spark.sql.laneshift

import java.nio.file.{Files, Path}

import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.rescale.{NotRescalable, OfflineRescale}

import laneshift.testing.{Deep, LimitedSuite}

/** A checkpoint that nobody uses gets another number of partitions; what does not fit is refused, and nothing has changed. */
class OfflineRescaleSuite extends LimitedSuite with ElasticSession {
  private val format = "spark.sql.streaming.stateStore.checkpointFormatVersion"
  private val chunks = (0 until 3).map(i => TestInput.rows(seed = 51, i * 300L, 300))
  private val sums = QueryCase("sums", "update")(_.groupBy("key").agg(count("*"), sum("value")))

  private def rescaled(query: QueryCase, version: String): Unit = withConf(format -> version) {
    val changes = Map(1 -> 5, 2 -> 2)
    val stock = withFolder(at =>
      withConf(ElasticSession.Stock: _*)(new RescaleRun(spark, query, at, changes).stock(chunks))
    )
    val ours = withFolder(at =>
      withConf(ElasticSession.Stock: _*)(new RescaleRun(spark, query, at, changes).stopped(chunks))
    )
    RescaleRun.same(stock, ours, elastic = false)
  }

  test("sums, as Spark's own repartition")(rescaled(sums, "1"))
  test("a join with one side empty, checkpoint format 2", Deep.Pairs) {
    rescaled(QueryCase("one side", "append")(in => JoinCases.join("left_outer")(in.where("id % 2 = 0"))), "2")
  }
  test("time to live, checkpoint format 2", Deep.Pairs)(rescaled(TransformWithStatePairSuite.cases.last, "2"))

  test("what is read around take-overs", Deep.Pairs) {
    VersionChecks.sameAsStock(this, VersionChecks.variables, format -> "1")(_.stopped)
  }

  private def ended(query: QueryCase, options: (String, String)*)(body: Path => Unit): Unit =
    withFolder { at =>
      withConf(ElasticSession.Stock ++ options: _*) {
        val run = new RescaleRun(spark, query, at, Map.empty)
        run.start()
        run.add(chunks.head)
        run.await()
        run.stop()
        body(at)
      }
    }

  private def files(at: Path): Seq[String] = {
    val all = Files.walk(at)
    try all.filter(Files.isRegularFile(_)).map[String](f =>
        s"${at.relativize(f)} ${Files.size(f)}"
      ).sorted.toArray.toSeq.map(_.toString)
    finally all.close()
  }

  private def refused(at: Path, partitions: Int, why: String): Unit = {
    val before = files(at)
    val e = intercept[NotRescalable](OfflineRescale.run(spark, at.toString, partitions, check = true))
    assert(e.getMessage.contains(why))
    assert(files(at) == before)
  }

  test("what does not fit is refused, and the checkpoint is as it was") {
    ended(sums) { at =>
      refused(at, 0, "Found 0; wanted 1 or more")
      refused(at, -4, "Found -4")
      refused(at, 3, "another number than the 3 of now")
      // Another application's rescale, under way.
      Files.createDirectories(at.resolve("laneshift-rescale/a"))
      Files.writeString(at.resolve("laneshift-rescale/a/b"), "c")
      refused(at, 3, "another number than the 3 of now")
      Files.delete(at.resolve("commits/0"))
      refused(at, 5, "no batch of it has ended yet")
    }
    ended(QueryCase("no state", "append")(_.select("key")))(refused(_, 5, "it has no stateful operator"))
    ended(QueryCase("limit", "append")(_.limit(10)))(refused(_, 5, "has one key"))
    // Its one partition is the first, which no hash says: 4 would have its state in the third.
    val one = "spark.sql.shuffle.partitions" -> "1"
    val oneKey = QueryCase("no key", "complete")(_.agg(count("*")))
    ended(oneKey, one)(refused(_, 4, "stateStoreSave has one key"))
    ended(TransformWithStatePairSuite.cases.head, one)(refused(_, 4, "its one partition does not show"))
    val strict = "spark.sql.streaming.statefulOperator.useStrictDistribution"
    ended(sums, strict -> "false")(refused(_, 5, "by a part of their keys"))
    val hdfs = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ended(sums, "spark.sql.streaming.stateStore.providerClass" -> hdfs)(refused(_, 5, hdfs))
    withFolder(refused(_, 5, "is no checkpoint: it has no folder offsets"))
  }

  test("a batch that has not ended, and a query that runs, are told") {
    ended(sums) { at =>
      val run = new RescaleRun(spark, sums, at, Map.empty)
      Files.copy(at.resolve("offsets/0"), at.resolve("offsets/1"))
      Files.createDirectories(at.resolve("laneshift-rescale/a"))
      Files.writeString(at.resolve("laneshift-rescale/a/b"), "another application's")
      refused(at, 5, "batch 1 has begun and not ended")
      Files.delete(at.resolve("offsets/1"))
      run.start()
      try {
        run.add(chunks.head)
        run.await()
        val e = intercept[NotRescalable](OfflineRescale.run(spark, at.toString, 5, check = true))
        assert(e.getMessage.contains(s"the query ${run.query.id} runs on it"))
      } finally run.stop()
    }
  }

  test("rows that are not where their keys say are refused before anything has changed") {
    ended(sums) { at =>
      def partition(n: Int) = at.resolve(s"state/0/$n")
      Files.move(partition(1), at.resolve("state/0/other"))
      Files.move(partition(2), partition(1))
      Files.move(at.resolve("state/0/other"), partition(2))
      val before = files(at)
      val e = intercept[Exception](OfflineRescale.run(spark, at.toString, 5, check = true))
      assert(e.toString.contains("by another key than it was shuffled by"), e)
      assert(files(at) == before)
    }
  }

  test("what it has done is told") {
    ended(sums) { at =>
      val told = OfflineRescale.run(spark, at.toString, 6, check = true)
      assert(told.rows.exists(_ > 50) && told.from == 3 && told.to == 6 && told.batch == 1)
    }
  }
}
