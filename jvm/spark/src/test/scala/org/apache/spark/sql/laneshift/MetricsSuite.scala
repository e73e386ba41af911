package org.apache.spark.sql.laneshift

import java.nio.file.Paths
import java.sql.Timestamp

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.sparkproject.spark_core.protobuf.Message

import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.driver.{ApplicationMetrics, BatchView, StoresView}
import org.apache.spark.sql.laneshift.runtime.{ElasticRuntime, PartitionView}
import org.apache.spark.sql.streaming.{SourceProgress, StateOperatorProgress, StreamingQuery}

import laneshift.testing.{Deep, LimitedSuite}

/** What is measured of running queries, and that it goes by the shared vocabulary (python/laneshift/metrics.json). */
class MetricsSuite extends LimitedSuite with ElasticSession {
  private val mapper = new ObjectMapper
  private val python = Paths.get(System.getProperty("laneshift.repo"), "python")
  private val vocabulary =
    mapper.readTree(python.resolve("laneshift/metrics.json").toFile).elements.asScala.toSeq

  /** Fields of a snapshot's messages that are no metrics, by message: Python's test reads them, too. */
  private val noMetrics = mapper.readTree(python.resolve("tests/plugin/no_metrics.json").toFile)

  private val dedup = QueryCase("dedup", "append")(_.dropDuplicates("key", "number"))
  private val sums = QueryCase("sums", "update")(
    _.groupBy("key").agg(count("*"), sum("value"), max("id"))
  )
  private val chunks = (0 until 3).map(i => TestInput.rows(seed = 5, i * 300L, 300))

  private def views(query: StreamingQuery): Seq[PartitionView] =
    ElasticRuntime.get.all.map(_.view).filter(_.spec.key.runId == query.runId.toString)

  /** `read` of a query case after its batches, and before it stops. */
  private def measured[T](query: QueryCase, options: (String, String)*)(read: StreamingQuery => T): T =
    measured(query, chunks, options: _*)(read)

  private def measured[T](query: QueryCase, rows: Seq[Seq[TestInput]], options: (String, String)*)(
      read: StreamingQuery => T
  ): T =
    withConf(options: _*)(withFolder { folder =>
      val session = spark
      import session.implicits._
      val input = MemoryStream[TestInput](implicitly[org.apache.spark.sql.Encoder[TestInput]], spark)
      val running = MicroBatchRun.start(query, input.toDF(), folder) { (rows, _) => rows.collect(); () }
      try {
        rows.foreach { chunk =>
          input.addData(chunk)
          running.processAllAvailable()
        }
        read(running)
      } finally running.stop()
    })

  private val oneLane = Seq("spark.sql.laneshift.lanes" -> "1")

  private def passed(views: Seq[PartitionView]): Seq[Long] =
    Seq[PartitionView => Long](_.rowsIn, _.rowsOut, _.bytesIn, _.bytesOut).map(views.map(_).sum)

  for (query <- Seq(dedup, sums))
    test(s"${query.name}: rows and bytes are the same with one lane and with many that move") {
      val one = measured(query, oneLane: _*)(q => passed(views(q)))
      val many = measured(query, ElasticSession.moving(3): _*)(q => passed(views(q)))
      assert(one == many)
      assert(one.head == chunks.map(_.size).sum || query == sums)
      // A row has at least a word of null bits and one for each field.
      one.take(2).zip(one.drop(2)).foreach { case (rows, bytes) => assert(bytes >= rows * 16 && rows > 0) }
    }

  for ((lanes, options) <- Seq("one lane" -> oneLane, "lanes that move" -> ElasticSession.moving(4)))
    test(s"the partitions' state is the operator's, as Spark reports it: $lanes") {
      measured(sums, options: _*) { query =>
        val reported = query.lastProgress.stateOperators.head
        val found = views(query).map(_.state)
        assert(found.size == 3)
        assert(found.map(_.rows).sum == reported.numRowsTotal && reported.numRowsTotal > 0)
        assert(found.map(_.memoryBytes).sum == reported.memoryUsedBytes && reported.memoryUsedBytes > 0)
        assert(found.map(_.fileBytes).sum == reported.customMetrics.get("rocksdbSstFileSize"))
      }
    }

  for (lanes <- Seq("1", "3"))
    test(s"Real-time Mode: the age of outputs by a timestamp among them, lanes $lanes", Deep.Speed) {
      withConf(
        "spark.sql.laneshift.latencyColumn" -> "Sent",
        "spark.sql.laneshift.lanes" -> lanes
      )(withFolder { folder =>
        val session = spark
        import session.implicits._
        val input = LowLatencyMemoryStream[(Long, Timestamp)](spark, 2)
        val list = CollectingWriter.create()
        val answers = input.toDF().toDF("key", "at").groupBy("key").agg(max("at").as("sent"))
        val query = RealTimeRun.start(answers, "update", folder, new CollectingWriter(list), "1 second")
        try
          Patience.until(query) {
            // Rows that are three seconds old.
            val sent = new Timestamp(System.currentTimeMillis() - 3000)
            (0 to 1).foreach(p => input.addData(p, (0L until 5L).map(k => (k * 2 + p, sent))))
            Thread.sleep(100)
            views(query).map(_.latencyMs).exists(l =>
              l.count > 20 && l.p50 >= 2900 && l.p50 < 20000 && l.mean >= 2900 && l.max >= l.p99
            )
          }
        finally query.stop()
      })
    }

  test("outputs without the column are not measured") {
    measured(sums, "spark.sql.laneshift.latencyColumn" -> "value") { query =>
      assert(views(query).map(_.latencyMs.count) == Seq(0, 0, 0))
    }
  }

  private def source(name: String, end: String, latest: String): Row = {
    val s = new SourceProgress(name, null, end, latest, 5L, 1.0, 1.0, java.util.Map.of())
    Row(BatchView.source(s).backlogRows)
  }

  test("what waits at a source is what its newest offset is ahead, where offsets count rows") {
    val kafka = """{"a":{"0":10,"1":20}}"""
    assert(source("KafkaV2[Subscribe[a]]", kafka, """{"a":{"0":15,"1":21}}""") == Row(Some(6L)))
    assert(source("KafkaV2[Subscribe[a]]", kafka, kafka) == Row(Some(0L)))
    assert(source("KafkaV2[Subscribe[a]]", kafka, null) == Row(None))
    assert(source("FileStreamSource[x]", """{"logOffset":1}""", """{"logOffset":5}""") == Row(None))
    val workload = Seq("[3,4]", "[7,4]").map(next => s"""{"version":1,"seed":7,"next":$next}""")
    assert(source("laneshift-workload[keys=3]", workload.head, workload(1)) == Row(Some(4L)))
  }

  private def stores(metrics: (String, Long)*): StoresView = {
    val custom = metrics.map { case (name, value) => name -> Long.box(value) }.toMap.asJava
    BatchView.stores(
      new StateOperatorProgress("join", 9, 5, 70, 0, 8, 1200, 4096, 0, 16, 64, custom, Set.empty)
    )
  }

  test("stores of a batch: what opening and committing them took, and what that wrote") {
    assert(stores() == StoresView("join", 16, 64, 1200, 0))
    val rocks = Seq("rocksdbLoadLatencyMs" -> 300L, "rocksdbTotalBytesWritten" -> 7000L)
    assert(stores(rocks: _*) == StoresView("join", 16, 64, 1500, 7000))
    assert(stores(rocks :+ ("rocksdbBytesCopied" -> 90000L): _*) == StoresView("join", 16, 64, 1500, 90000))
  }

  // ---- hot keys

  /** The same rows, of which six of ten have one key. */
  private def heated(rows: Seq[TestInput]): Seq[TestInput] =
    rows.zipWithIndex.map { case (row, i) => if (i % 10 < 6) row.copy(key = "hot") else row }

  private def checkHot(views: Seq[PartitionView], show: String): Unit = {
    val found = views.flatMap(_.hotKeys).filter(_.share > 0.7)
    show match {
      case "none" => assert(views.forall(_.hotKeys.isEmpty))
      case "values" => assert(found.map(_.value) == Seq(Some("hot")), views.map(_.hotKeys))
      case "hashes" =>
        assert(found.size == 1 && views.flatMap(_.hotKeys).forall(_.value.isEmpty), views.map(_.hotKeys))
    }
  }

  private val firsts = QueryCase("first of each key", "append")(_.dropDuplicates("key"))

  for {
    query <- Seq(firsts, JoinCases.plain)
    (lanes, options) <- Seq("one lane" -> oneLane, "lanes that move" -> ElasticSession.moving(4))
    show <- Seq("values", "hashes", "none")
  } test(
    s"hot keys of ${query.name}, $lanes: $show",
    Deep.Pairs.unless(query == firsts || (lanes != "one lane" && show == "values")): _*
  ) {
    withConf("spark.sql.laneshift.hotKeys.show" -> show) {
      measured(query, chunks.map(heated), options: _*)(running => checkHot(views(running), show))
    }
  }

  test("hot keys in Real-time Mode, where values may be shown, in the plugin's answer") {
    withConf("spark.sql.laneshift.hotKeys.show" -> "values")(withFolder { folder =>
      val session = spark
      import session.implicits._
      val input = LowLatencyMemoryStream[TestInput](spark, 2)
      val list = CollectingWriter.create()
      val running =
        RealTimeRun.start(sums.build(input.toDF()), "update", folder, new CollectingWriter(list), "1 second")
      try {
        chunks.foreach(chunk =>
          (0 to 1).foreach(p => input.addData(p, heated(chunk).filter(_.number % 2 == p)))
        )
        Patience.until(running)(views(running).map(_.rowsIn).sum == chunks.map(_.size).sum)
        checkHot(views(running), "values")
        val keys = Asked.snapshot().getQueriesList.asScala.flatMap(_.getOperatorsList.asScala)
          .flatMap(_.getPartitionsList.asScala).flatMap(_.getHotKeysList.asScala)
        assert(
          keys.exists(k =>
            k.getKey.matches("[0-9a-f]{8}") && k.getValue == "hot" && k.getShare >= 0.6 && k.getShare < 1
          ),
          keys
        )
      } finally running.stop()
    })
  }

  /** But those that are no metrics. */
  private def fields(message: Message): Set[String] = {
    val of = message.getDescriptorForType
    val named = noMetrics.path(of.getName).asScala.map(_.asText).toSet
    of.getFields.asScala.map(_.getName).toSet -- named
  }

  test("a snapshot measures what the vocabulary has as live") {
    measured(sums, oneLane: _*) { query =>
      RescaleRun.ask(query, 5)
      val snapshot = Asked.snapshot()
      val executor = fields(snapshot.getExecutors(0))
      val mine = snapshot.getQueriesList.asScala.find(_.getRunId == query.runId.toString).get
      val partition = mine.getOperators(0).getPartitions(0)
      val rescale = fields(mine.getRescale)
      Patience.until(query)(!query.status.isTriggerActive)
      val source = mine.getBatch.getSources(0)
      val live = vocabulary.filter(_.path("live").asBoolean).map(_.get("name").asText).toSet
      assert(fields(partition) ++ fields(source) ++ executor ++ rescale == live)
    }
  }

  test("gauges of Spark's metrics system are those of the vocabulary") {
    val gauges = vocabulary.filter(_.has("gauge")).map(_.get("gauge").asText).toSet
    val counts = Set("partitions", "queries", "rescales")
    assert(ApplicationMetrics.names.map(_.stripPrefix("application.")).toSet == gauges ++ counts)
  }
}
