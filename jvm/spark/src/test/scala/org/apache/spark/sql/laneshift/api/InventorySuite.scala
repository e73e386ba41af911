package org.apache.spark.sql.laneshift.api

import java.util.UUID

import org.apache.spark.sql.laneshift.driver.DriverState
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryStartedEvent

import laneshift.testing.LimitedSuite

class InventorySuite extends LimitedSuite {
  private def id(number: Int): UUID = new UUID(0L, number.toLong)

  test("a query's id is that of no other that has it for a name") {
    val driver = new DriverState(_ => ())
    def start(number: Int, name: String): Unit =
      driver.runs.onOtherEvent(
        new QueryStartedEvent(
          id(number),
          id(10 + number),
          name,
          "2026-01-01T00:00:00.000Z",
          Set.empty[String]
        )
      )
    start(1, id(2).toString)
    start(2, "orders")
    Seq(id(2).toString, id(12).toString, "orders").foreach { named =>
      assert(Inventory.runOf(driver, named).id == id(2).toString)
    }
    assert(Inventory.runOf(driver, id(11).toString).id == id(1).toString)
  }
}
