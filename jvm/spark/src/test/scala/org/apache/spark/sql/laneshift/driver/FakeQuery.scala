package org.apache.spark.sql.laneshift.driver

import java.util.UUID

import org.apache.spark.sql.Encoder
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.laneshift.{ElasticSession, MicroBatchRun, QueryCase, TestInput}
import org.apache.spark.sql.laneshift.runtime.{ElasticRuntime, PartitionView}
import org.apache.spark.sql.streaming.StreamingQueryListener.{QueryStartedEvent, QueryTerminatedEvent}

/** What executors and Spark said of a query that did run. */
object FakeQuery {
  lazy val views: Seq[PartitionView] = ElasticSession.withFolder { at =>
    val session = ElasticSession.shared.newSession()
    ElasticSession.withConf(session, Seq("spark.sql.laneshift.enabled" -> "true")) {
      import session.implicits._
      val input = MemoryStream[TestInput](implicitly[Encoder[TestInput]], session)
      val query = QueryCase("dedup", "append")(_.dropDuplicates("id"))
      val running = MicroBatchRun.start(query, input.toDF(), at) { (rows, _) => rows.collect(); () }
      try {
        input.addData(TestInput.rows(seed = 1, 0, 100))
        running.processAllAvailable()
        ElasticRuntime.get.all.map(_.view).filter(_.spec.key.runId == running.runId.toString)
      } finally running.stop()
    }
  }

  private def id = UUID.fromString(views.head.spec.key.queryId)
  private def runId = UUID.fromString(views.head.spec.key.runId)

  def started: QueryStartedEvent =
    new QueryStartedEvent(id, runId, "fake", "2026-01-01T00:00:00.000Z", Set.empty[String])

  def terminated: QueryTerminatedEvent = new QueryTerminatedEvent(id, runId, None, None)
}
