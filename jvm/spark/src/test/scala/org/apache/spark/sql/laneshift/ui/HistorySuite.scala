package org.apache.spark.sql.laneshift.ui

import org.apache.spark.SparkConf
import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.laneshift.driver._
import org.apache.spark.status.ElementTrackingStore
import org.apache.spark.util.kvstore.InMemoryStore

import laneshift.testing.LimitedSuite

/** What the History Server keeps of an application. */
class HistorySuite extends LimitedSuite with ElasticSession {
  test("of thousands of runs it has the newest") {
    val executors = new ExecutorDirectory
    new FakeExecutor("1", FakeQuery.views).register(executors)
    val driver = new DriverState(_ => (), executors)
    driver.runs.onOtherEvent(FakeQuery.started)
    val seen = QueryRecord.of(driver.views()).head
    val store = new ElementTrackingStore(new InMemoryStore, new SparkConf)
    val listener = new HistoryListener(store)
    val runs = (0 until HistoryListener.Runs + 50).map(n => f"run $n%05d")
    def tell(run: String): Unit =
      listener.onOtherEvent(LaneshiftSample(1L, Seq(seen.copy(runId = run)), Nil))
    runs.foreach(tell)
    // One that goes on is seen again.
    tell(runs(50))
    tell("newest")
    val kept = new History(store).content.queries.map(_.runId)
    assert(kept == runs.drop(52) ++ Seq(runs(50), "newest"))
  }
}
