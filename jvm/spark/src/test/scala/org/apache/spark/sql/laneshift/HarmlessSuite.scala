package org.apache.spark.sql.laneshift

import java.io.ByteArrayOutputStream
import java.nio.file.{Files, Path}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.{Dataset, Encoder, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming._

import laneshift.testing.{Deep, LimitedSuite}

/** What laneshift does not serve gives stock Spark's answers, and nothing of the user's session changes: batch queries, EXPLAIN,
  * what `foreachBatch` runs beside its query, streaming operators that it does not make elastic.
  */
class HarmlessSuite extends LimitedSuite with ElasticSession {
  import HarmlessSuite._
  import spark.implicits._

  private val rows = TestInput.rows(seed = 41, first = 0, count = 900)
  private val chunks = (0 until 3).map(i => TestInput.rows(seed = 42, i * 300L, 300))

  /** For what a batch does on its own, whatever came before. */
  private val firstAndLater = chunks.take(2)

  /** Runs `body` and compares the session's whole configuration, which it puts back for other suites' sake. */
  private def leavesConf[T](body: => T): T = {
    val conf = spark.sessionState.conf
    val (all, told) = (conf.getAllConfs, spark.conf.getAll)
    try {
      val result = body
      val (now, toldNow) = (conf.getAllConfs, spark.conf.getAll)
      assert(now.toSet.diff(all.toSet) == Set.empty, "set")
      assert(all.keySet.diff(now.keySet) == Set.empty, "unset")
      assert(toldNow == told)
      result
    } finally {
      conf.getAllConfs.keySet.diff(all.keySet).foreach(conf.unsetConf(_: String))
      all.foreach { case (k, v) => conf.setConfString(k, v) }
    }
  }

  /** A static frame in the place of a stream. */
  private def batch(query: QueryCase): Seq[Row] = query.build(rows.toDF()).collect().toSeq

  private val stockAnswers = scala.collection.mutable.Map.empty[String, Seq[Row]]

  private def stock(query: QueryCase): Seq[Row] =
    stockAnswers.getOrElseUpdate(query.name, withConf(ElasticSession.Stock: _*)(batch(query)))

  for (query <- batchCases; n <- Seq(1, 3, 8))
    test(
      s"batch, ${query.name}, lanes $n: stock's answer, and the configuration as before",
      Deep.Pairs.unless(n == 3): _*
    ) {
      val expected = stock(query)
      assert(expected.nonEmpty)
      withConf(lanes(n): _*)(leavesConf {
        PairCheck.sameRows(query.name, expected, batch(query))
        val plan = query.build(rows.toDF()).queryExecution.executedPlan.toString
        assert(!plan.contains("Elastic [") && !plan.contains("StockStateful"), plan)
      })
    }

  for (query <- streamCases)
    test(s"EXPLAIN of a stream changes no configuration: ${query.name}") {
      withConf(lanes(3): _*)(leavesConf {
        val told = explained(query)
        assert(told.contains("Physical Plan"), told)
      })
    }

  private def explained(query: QueryCase): String = {
    val stream = query.build(MemoryStream[TestInput](implicitly[Encoder[TestInput]], spark).toDF())
    val told = new ByteArrayOutputStream
    Console.withOut(told)(stream.explain(true))
    told.toString
  }

  /** Rows of a query over `chunks`, whose batches go through `body`. */
  private def streamed(query: QueryCase, at: Path, chunks: Seq[Seq[TestInput]] = chunks)(
      body: (Dataset[Row], Long) => Seq[Row]
  ): Seq[Row] = {
    val input = MemoryStream[TestInput](implicitly[Encoder[TestInput]], spark)
    val all = ArrayBuffer.empty[Row]
    val running = MicroBatchRun.start(query, input.toDF(), at) { (batch, id) =>
      val more = body(batch, id)
      all.synchronized(all ++= more)
      ()
    }
    try chunks.foreach { chunk =>
        input.addData(chunk)
        running.processAllAvailable()
      }
    finally running.stop()
    all.toSeq
  }

  private def pair(n: Int)(run: Path => Seq[Row]): Unit = {
    val expected = withFolder(at => withConf(ElasticSession.Stock: _*)(run(at)))
    assert(expected.nonEmpty)
    withFolder { at =>
      withConf(lanes(n): _*)(leavesConf(PairCheck.sameRows(s"lanes $n", expected, run(at))))
    }
  }

  for ((inner, i) <- batchCases.zipWithIndex; n <- Seq(1, 3))
    test(
      s"foreachBatch of an elastic query runs a batch query: ${inner.name}, lanes $n",
      Deep.Pairs.unless(n == 3 && i % 10 == 0): _*
    ) {
      pair(n)(at =>
        streamed(kept, at, firstAndLater) { (batch, _) =>
          // Read once, as Spark's guide has it: stock Spark, too, may hang in RocksDB where a body has a stateful batch computed
          // twice, as a join of it with itself does.
          val once = batch.persist()
          try {
            once.count()
            inner.build(once).collect().toSeq
          } finally { once.unpersist(); () }
        }
      )
    }

  test("foreachBatch reads files by its session and runs a stateful batch query over them") {
    withFolder { files =>
      rows.toDF().write.mode("overwrite").parquet(files.toString)
      pair(n = 3)(at =>
        streamed(kept, at, firstAndLater) { (batch, _) =>
          val static = batch.sparkSession.read.parquet(files.toString)
          states.build(static).collect().toSeq ++ batch.collect()
        }
      )
    }
  }

  test("foreachBatch starts another streaming query by its session: its checkpoint names Spark's provider") {
    withFolder { files =>
      rows.toDF().repartition(1).write.mode("overwrite").parquet(files.toString)
      pair(n = 3) { at =>
        val all = streamed(kept, at.resolve("outer"), firstAndLater) { (batch, id) =>
          val inner = at.resolve(s"inner-$id")
          val found = ArrayBuffer.empty[Row]
          val stream = batch.sparkSession.readStream.schema(rows.toDF().schema).parquet(files.toString)
          MicroBatchRun
            .start(states, stream, inner, Trigger.AvailableNow()) { (b, _) =>
              found.synchronized { found ++= b.collect(); () }
            }
            .awaitTermination()
          namesSparksProvider(inner)
          found.toSeq ++ batch.collect()
        }
        namesSparksProvider(at.resolve("outer"))
        all
      }
    }
  }

  test("a streaming query after all that leaves a checkpoint that stock Spark goes on with") {
    def life(turns: Seq[Seq[(String, String)]]): Seq[Row] = withFolder { at =>
      val life = new MicroBatchLife(spark, states, at)
      turns.zip(chunks).foreach { case (options, chunk) =>
        withConf(options: _*)(leavesConf {
          batch(states)
          explained(states)
          life.run(chunk)
          namesSparksProvider(at)
        })
      }
      life.rows
    }
    val expected = life(Seq.fill(3)(ElasticSession.Stock))
    PairCheck.sameRows("by turns", expected, life(Seq(lanes(3), ElasticSession.Stock, lanes(3))))
  }

  for (query <- otherStreams; n <- Seq(1, 3))
    test(s"stream, ${query.name}, lanes $n: stock's answer", Deep.Pairs.unless(n == 3): _*) {
      pair(n)(at => streamed(query, at)((batch, _) => batch.collect().toSeq))
    }
}

object HarmlessSuite {
  private lazy val session = ElasticSession.shared
  import session.implicits._

  private val Provider = "spark.sql.streaming.stateStore.providerClass"

  private def lanes(n: Int): Seq[(String, String)] = Seq(
    "spark.sql.laneshift.enabled" -> "true",
    "spark.sql.laneshift.lanes" -> n.toString,
    "spark.sql.laneshift.maxLanes" -> "8",
    "spark.sql.laneshift.shardsPerPartition" -> "16"
  )

  /** Every batch's. */
  private def namesSparksProvider(checkpoint: Path): Unit = {
    val offsets = checkpoint.resolve("offsets").toFile.listFiles().filter(_.getName.forall(_.isDigit)).toSeq
    assert(offsets.nonEmpty, s"no offsets in $checkpoint")
    offsets.foreach { file =>
      val text = Files.readString(file.toPath)
      assert(text.contains(s""""$Provider":"${classOf[RocksDBStateStoreProvider].getName}""""), text)
    }
  }

  private def processed(name: String)(processor: => StatefulProcessor[String, TestInput, Told]) =
    QueryCase(s"transformWithState, $name", "update")(rows =>
      TransformWithStatePairSuite.byKey(processor)(rows.as[TestInput])
    )

  private val states = processed("value, list and map")(new AllStates)

  private def known = session.range(30).map(i => s"key-$i" -> i.longValue).groupByKey(_._1).mapValues(_._2)

  /** An elastic query that lets all columns pass, for the batches of `foreachBatch`. */
  private val kept = QueryCase("kept", "append")(_.dropDuplicates("id"))

  private val sums = QueryCase("aggregation", "update")(_.groupBy("key").agg(count("*"), sum("value")))

  private val dedup =
    QueryCase("dropDuplicates", "append")(_.dropDuplicates("key", "number").select("key", "number"))

  private val windows = QueryCase("windowed aggregation", "append")(
    _.withWatermark("time", "1 second").groupBy(window(col("time"), "2 seconds"), col("key"))
      .agg(count("*"), sum("value"), max("id"))
  )

  private val mapGroups = QueryCase("mapGroups", "append")(
    _.as[TestInput]
      .groupByKey(_.key)
      .mapGroups((key: String, rows: Iterator[TestInput]) => Told(key, "all", 0, rows.map(_.value).sum))
      .toDF()
  )

  private val flatMapGroups = QueryCase("flatMapGroups", "append")(
    _.as[TestInput]
      .groupByKey(_.place)
      .flatMapGroups((place: Place, rows: Iterator[TestInput]) =>
        rows.map(r => Told(place.city, "each", r.id, r.value))
      )
      .toDF()
  )

  private val stateful: Seq[QueryCase] = Seq(
    states,
    QueryCase("transformWithState, processing-time timers", "update")(
      _.as[TestInput]
        .groupByKey(r => (r.key, r.number))
        .transformWithState(new QuietAfterProcessing, TimeMode.ProcessingTime(), OutputMode.Update())
        .toDF()
    ),
    QueryCase("transformWithState, initial state", "update")(
      _.as[TestInput]
        .groupByKey(_.key)
        .transformWithState(new Continued, TimeMode.None(), OutputMode.Update(), known)
        .toDF()
    ),
    sums,
    dedup,
    windows,
    QueryCase("dropDuplicatesWithinWatermark", "append")(
      _.withWatermark("time", "1 second").dropDuplicatesWithinWatermark("key").select("key")
    )
  ) ++ GroupStatePairSuite.cases.filterNot(_.stepped) ++ SessionWindowPairSuite.cases.take(1) ++
    JoinCases.ranges.take(2)

  private val streamCases: Seq[QueryCase] = stateful ++ JoinCases.chains.map(_._1)

  private val batchCases: Seq[QueryCase] =
    // Static frames know no watermark, and those functions ask for it.
    stateful.filterNot(q => q.name.contains("event-time") || q.name.contains("WithinWatermark")) ++
      Seq(
        GroupStatePairSuite.continued,
        QueryCase("limit", "append")(_.orderBy("id").limit(7).select("id", "key")),
        QueryCase("limit of what is aggregated", "complete")(
          _.groupBy("key").agg(count("*").as("n"), sum("value")).orderBy(col("n").desc, col("key")).limit(9)
        ),
        mapGroups,
        flatMapGroups
      )

  /** Streaming queries without an elastic operator, or with one beside another operator. */
  private val otherStreams: Seq[QueryCase] = Seq(
    QueryCase("limit", "append")(_.select("id", "key").limit(433)),
    QueryCase("limit above an aggregation", "complete")(
      _.groupBy("key").agg(count("*").as("n"), sum("value")).orderBy(col("n").desc, col("key")).limit(9)
    ),
    QueryCase("transformWithState above a limit", "append")(
      _.limit(500).as[TestInput]
        .groupByKey(_.key)
        .transformWithState(new AllStates, TimeMode.None(), OutputMode.Append())
        .toDF()
    ),
    // Which rows a limit takes is left to chance.
    QueryCase("limit above dropDuplicates", "append")(_.dropDuplicates("id").limit(433).select(lit(1))),
    mapGroups,
    flatMapGroups,
    QueryCase("mapGroups above dropDuplicates", "append")(in => mapGroups.build(in.dropDuplicates("id")))
  )
}
