package org.apache.spark.sql.laneshift.plan

import java.util.UUID

import org.apache.spark.sql.connector.read.streaming.{Offset, SparkDataStream}
import org.apache.spark.sql.execution.LocalTableScanExec

import laneshift.testing.LimitedSuite

/** What a plan remembers of a run, in a driver in which thousands of others come and go. */
class RunMemoriesSuite extends LimitedSuite {
  private val Others = 3000

  private class Source extends SparkDataStream {
    override def initialOffset(): Offset = fail()
    override def deserializeOffset(json: String): Offset = fail()
    override def commit(end: Offset): Unit = ()
    override def stop(): Unit = ()
  }

  private def run(number: Int): UUID = new UUID(1L, number.toLong)

  test("a query that stays stock does so for as long as it runs") {
    StockRuns.add(run(0), "why")
    (1 to Others).foreach { n =>
      StockRuns.add(run(n), "another's")
      assert(StockRuns.reason(run(0)).contains("why"), s"after $n others")
    }
    assert(StockRuns.reason(run(1)).isEmpty)
  }

  test("what was tried of a query's hot keys is not tried anew") {
    def mine = Spreads.of(run(0).toString, 0L, realTime = true)
    val trial = mine
    (1 to Others).foreach { n =>
      Spreads.of(run(n).toString, 0L, realTime = true)
      assert(mine eq trial, s"after $n others")
    }
  }

  test("stages keep their numbers, also if a batch leaves one out") {
    def stage() = LocalTableScanExec(Nil, Nil, Some(new Source))
    val (one, other) = (stage(), stage())
    def batch(of: Int, plans: LocalTableScanExec*) = {
      val numbers = new RowWiseNumbers.OfPlan(run(of).toString)
      plans.map(numbers.of(_))
    }
    val first = batch(0, one, other)
    (1 to Others).foreach { n =>
      batch(n, one)
      assert(batch(0, other) == first.tail, s"after $n others")
    }
  }
}
