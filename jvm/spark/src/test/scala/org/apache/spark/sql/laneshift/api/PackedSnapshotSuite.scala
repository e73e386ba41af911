package org.apache.spark.sql.laneshift.api

import java.util.Base64

import scala.concurrent.duration._
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.{ElasticSession, MicroBatchRun, QueryCase, TestInput}
import org.apache.spark.sql.laneshift.driver.SnapshotNumbers

import laneshift.testing.{Deep, LimitedSuite}

/** Snapshots as the control service asks for them: told again only if something has changed. */
class PackedSnapshotSuite extends LimitedSuite with ElasticSession {
  private val sums = QueryCase("sums", "update")(_.groupBy("key").agg(count("*"), sum("value")))

  private def asked(known: Long): JsonNode =
    new ObjectMapper().readTree(LaneshiftGateway.packedSnapshot(known)).get("ok")

  private def number(said: JsonNode): Long = said.get("number").asLong

  /** The number once nothing changes any more. */
  private def resting(): Long = {
    val end = 60.seconds.fromNow
    var last = number(asked(0))
    var same = 0
    while (same < 10) {
      assert(end.hasTimeLeft(), "it never stays as it is")
      Thread.sleep(100)
      val now = number(asked(last))
      same = if (now == last) same + 1 else 0
      last = now
    }
    last
  }

  test("A number is that of what is said, and another after each change") {
    val numbers = new SnapshotNumbers
    def of(text: String, about: Any = Nil) = numbers.of(text.getBytes, about)
    assert(Seq(of(""), of(""), of("a"), of("a"), of("")) == Seq(1, 1, 2, 2, 3))
    assert(Seq(of("", Seq(1)), of("", List(1)), of("")) == Seq(4, 4, 5))
  }

  test("A query at rest is told once, and again after a command and a batch", Deep.Speed) {
    val options =
      Seq("spark.sql.laneshift.lanes" -> "2", "spark.sql.streaming.noDataProgressEventInterval" -> "1h")
    withConf(options: _*)(withFolder { folder =>
      val session = spark
      import session.implicits._
      val input = MemoryStream[TestInput](implicitly[org.apache.spark.sql.Encoder[TestInput]], spark)
      val query = MicroBatchRun.start(sums, input.toDF(), folder) { (rows, _) => rows.collect(); () }
      try {
        input.addData(TestInput.rows(seed = 5, 0, 300))
        query.processAllAvailable()
        val known = resting()
        val same = asked(known)
        assert(same.get("content").isNull && same.get("queries").isEmpty)
        val whole = asked(known - 1)
        assert(number(whole) == known && whole.get("time_ms").asLong >= same.get("time_ms").asLong)
        val length = Base64.getDecoder.decode(whole.get("content").asText).length
        val mine = whole.get("queries").elements.asScala.toSeq
        assert(
          mine.exists(_.get("run_id").asText == query.runId.toString) && mine.forall(_.get("tenant").isNull)
        )
        assert(whole.get("head").asInt + mine.map(_.get("bytes").asInt).sum == length)

        LaneshiftGateway.setLanes(query.id.toString, 0, 0, 3, "")
        val changed = asked(known)
        assert(number(changed) > known && !changed.get("content").isNull)
        LaneshiftGateway.setLanes(query.id.toString, 0, 0, 2, "")
        assert(number(asked(known)) > number(changed), "a number is not had again")

        input.addData(TestInput.rows(seed = 5, 300, 300))
        query.processAllAvailable()
        assert(resting() > number(changed) + 1)
      } finally query.stop()
    })
  }
}
