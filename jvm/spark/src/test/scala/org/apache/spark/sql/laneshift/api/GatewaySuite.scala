package org.apache.spark.sql.laneshift.api

import scala.concurrent.duration._
import scala.jdk.CollectionConverters._

import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.{Asked, ElasticSession, MicroBatchRun, QueryCase, TestInput}
import org.apache.spark.sql.laneshift.driver.SnapshotMemory
import org.apache.spark.sql.laneshift.proto.{ControlMessages => pb}
import org.apache.spark.sql.streaming.StreamingQuery

import laneshift.testing.{Deep, LimitedSuite}

/** What the gateway answers: snapshots, told again only if something has changed, and what comes of each of many wishes. */
class GatewaySuite extends LimitedSuite with ElasticSession {
  private val sums = QueryCase("sums", "update")(_.groupBy("key").agg(count("*"), sum("value")))

  /** The number once nothing changes any more. */
  private def resting(): Long = {
    val end = 60.seconds.fromNow
    var last = Asked.snapshot().getNumber
    var same = 0
    while (same < 10) {
      assert(end.hasTimeLeft(), "it never stays as it is")
      Thread.sleep(100)
      val now = Asked.snapshot(last).getNumber
      same = if (now == last) same + 1 else 0
      last = now
    }
    last
  }

  private def running(options: (String, String)*)(body: (StreamingQuery, Int => Unit) => Unit): Unit =
    withConf(options: _*)(withFolder { folder =>
      val session = spark
      import session.implicits._
      val input = MemoryStream[TestInput](implicitly[org.apache.spark.sql.Encoder[TestInput]], spark)
      val query = MicroBatchRun.start(sums, input.toDF(), folder) { (rows, _) => rows.collect(); () }
      try {
        def feed(from: Int): Unit = {
          input.addData(TestInput.rows(seed = 5, from, 300))
          query.processAllAvailable()
        }
        feed(0)
        body(query, feed)
      } finally query.stop()
    })

  test("a number is that of what is said, and another after each change") {
    val memory = new SnapshotMemory
    def of(text: String) = memory.number(pb.SnapshotReply.newBuilder().setVersion(text).build())
    assert(Seq(of(""), of(""), of("a"), of("a"), of("")) == Seq(1, 1, 2, 2, 3))
  }

  test("a query at rest is told once, and again after a command and a batch", Deep.Speed) {
    running(
      "spark.sql.laneshift.lanes" -> "2",
      "spark.sql.streaming.noDataProgressEventInterval" -> "1h"
    ) { (query, feed) =>
      val id = query.id.toString
      val known = resting()
      val same = Asked.snapshot(known)
      assert(same.getSame && same.getQueriesCount == 0 && same.getExecutorsCount == 0)
      val whole = Asked.snapshot(known - 1)
      assert(whole.getNumber == known && !whole.getSame)
      assert(whole.getTimeMs >= same.getTimeMs && whole.getCountMs >= same.getCountMs)
      val mine = whole.getQueriesList.asScala
      assert(mine.exists(_.getRunId == query.runId.toString) && mine.forall(!_.hasTenant))

      assert(Asked.lanes(Asked.wish(id, Some(0), 3)).forall(_.hasApplied))
      val changed = Asked.snapshot(known)
      assert(changed.getNumber > known && !changed.getSame)
      Asked.lanes(Asked.wish(id, Some(0), 2))
      assert(Asked.snapshot(known).getNumber > changed.getNumber, "a number is not had again")

      feed(300)
      assert(resting() > changed.getNumber + 1)
    }
  }

  test("of many wishes each has its own outcome, in their order") {
    running("spark.sql.laneshift.lanes" -> "2") { (query, _) =>
      val id = query.id.toString
      val partitions = Asked.snapshot().getQueriesList.asScala
        .find(_.getRunId == query.runId.toString).get.getOperators(0).getPartitionsCount
      val wrong = Seq(
        Asked.wish(id, Some(partitions), 2) -> "LANESHIFT_NO_SUCH_PARTITION",
        Asked.wish(id, Some(-1), 2) -> "LANESHIFT_NO_SUCH_PARTITION",
        Asked.wish(id, Some(0), 99) -> "LANESHIFT_LANES_OUT_OF_RANGE",
        Asked.wish("nobody", Some(0), 2) -> "LANESHIFT_NO_SUCH_QUERY",
        Asked.wish(id, Some(0), 2, operator = 7L) -> "LANESHIFT_NO_SUCH_OPERATOR",
        Asked.wish(id, Some(0), 2).setElsewhere(elsewhere("9" -> 1)) -> "LANESHIFT_NO_SUCH_EXECUTOR",
        Asked.wish(id, Some(0), 2).setElsewhere(elsewhere("9" -> -1)) -> "LANESHIFT_OUT_OF_RANGE"
      )
      val right = (0 until partitions).map(p => Asked.wish(id, Some(p), 3))
      val found = Asked.lanes(wrong.map(_._1) ++ right :+ Asked.wish(id, None, 1): _*)
      assert(found.take(wrong.size).map(_.getFailure.getCondition) == wrong.map(_._2))
      assert(found.drop(wrong.size).forall(_.hasApplied) && found.size == wrong.size + partitions + 1)

      assert(Asked.move(id, 0, 999, 0).getFailure.getCondition == "LANESHIFT_NO_SUCH_SHARD")
      assert(Asked.move(id, 0, 0, 99).getFailure.getCondition == "LANESHIFT_NO_SUCH_LANE")
      assert(Asked.move(id, -1, 0, 0).getFailure.getCondition == "LANESHIFT_NO_SUCH_PARTITION")
      val tasks =
        Asked.tasks((id, 0L, "0"), (id, 0L, "many"), (id, 0L, s"${partitions + 1}"), (id, 0L, "auto"))
      assert(tasks.take(3).forall(_.getFailure.getCondition == "LANESHIFT_TASKS_OUT_OF_RANGE"))
      assert(tasks(3).getApplied == pb.Applied.NEXT_BATCH)
    }
  }

  private def elsewhere(lanes: (String, Int)): pb.Elsewhere =
    pb.Elsewhere.newBuilder().putLanes(lanes._1, lanes._2).build()

  test("an error of ours is an answer, another is thrown") {
    val refused = Asked("Rescaling", pb.RescalingRequest.newBuilder().setQuery("nobody").build())
    assert(refused.hasFailure && refused.getFailure.getSqlstate.length == 5)
    assert(refused.getFailure.getParametersMap.get("query") == "nobody")
    intercept[IllegalArgumentException](Asked("Nothing", pb.DoneReply.getDefaultInstance))
    intercept[java.io.IOException](LaneshiftGateway.ask("Snapshot", "/w=="))
  }

  test("the tab's JSON has what is there, by the fields' names") {
    val random = new scala.util.Random(1)
    val numbers =
      Array.fill(1000)(java.lang.Double.longBitsToDouble(random.nextLong())).filter(_.isFinite) ++
        Array(0.0, 2e-3, 1e23, Double.MinPositiveValue, Double.MaxValue, 5.0)
    val partition = pb.Partition.newBuilder().setExecutor("a \"b\"\n\u00e9").putWantedElsewhere("7", 2)
      .setBusyS(
        Double.NaN
      ).setRowsIn(Long.MaxValue).setLoadMetric(pb.Partition.LoadMetric.CPU).addLaneOfShard(3)
      .addHotKeys(pb.HotKey.newBuilder().setKey("k"))
    numbers.foreach(partition.addShardLoad)
    val said = JsonMethods.asJsonNode(JsonMethods.parse(JsonMethods.compact(MessageJson(partition.build()))))
    assert(said.get("executor").asText == "a \"b\"\n\u00e9" && said.get("rows_in").asLong == Long.MaxValue)
    assert(
      said.get("wanted_elsewhere").toString == """{"7":2}""" && said.get("lane_of_shard").toString == "[3]"
    )
    assert(said.get("busy_s").asText == "NaN" && said.get("load_metric").asText == "CPU")
    assert(
      !said.has("elsewhere_note") && !said.get("hot_keys").get(0).has("value") && !said.get("auto").asBoolean
    )
    numbers.indices.foreach(i =>
      assert(said.get("shard_load").get(i).asDouble.equals(numbers(i)), numbers(i))
    )
  }
}
