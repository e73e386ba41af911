package org.apache.spark.sql.laneshift.driver

import java.util.UUID

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StreamingQueryListener.{QueryStartedEvent, QueryTerminatedEvent}

import laneshift.testing.LimitedSuite

/** The queries of a driver that has had thousands of them. */
class QueryInventorySuite extends LimitedSuite {
  private val Others = 2 * QueryInventory.Remembered

  private def id(number: Int): UUID = new UUID(0L, number.toLong)

  private def start(queries: QueryInventory, number: Int): Unit =
    queries.onOtherEvent(
      new QueryStartedEvent(
        id(number),
        id(number),
        s"q$number",
        "2026-01-01T00:00:00.000Z",
        Set.empty[String]
      )
    )

  private def end(queries: QueryInventory, number: Int): Unit =
    queries.onOtherEvent(new QueryTerminatedEvent(id(number), id(number), None, None))

  test("a query that runs stays, however many others have come and gone since") {
    val queries = new QueryInventory(new ExecutorDirectory)
    start(queries, 0)
    (1 to Others).foreach { n =>
      start(queries, n)
      end(queries, n)
    }
    assert(queries.active.map(_.runId) == Seq(id(0).toString))
    val over = queries.all.filterNot(_.active).map(_.runId)
    assert(over == (Others - QueryInventory.Remembered + 1 to Others).map(id(_).toString))
  }

  test("whose query it is stays as long as it runs, and no longer") {
    val tenants = new Tenants
    val queries = new QueryInventory(new ExecutorDirectory, tenants.ended)
    val conf = new SQLConf
    tenants.welcome(conf)
    (0 to 6 * Others).foreach { n =>
      start(queries, n)
      tenants.started(id(n).toString, conf)
      if (n > 0) end(queries, n)
    }
    assert(tenants.of(id(0).toString).nonEmpty)
    assert(tenants.of(id(6 * Others).toString).isEmpty)
  }
}
