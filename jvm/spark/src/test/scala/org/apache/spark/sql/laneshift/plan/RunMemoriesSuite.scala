package org.apache.spark.sql.laneshift.plan

import org.apache.spark.sql.connector.read.streaming.{Offset, SparkDataStream}
import org.apache.spark.sql.execution.LocalTableScanExec
import org.apache.spark.sql.laneshift.driver.{Run, RunName}

import laneshift.testing.LimitedSuite

/** What planning remembers of a run from batch to batch. */
class RunMemoriesSuite extends LimitedSuite {
  private class Source extends SparkDataStream {
    override def initialOffset(): Offset = fail()
    override def deserializeOffset(json: String): Offset = fail()
    override def commit(end: Offset): Unit = ()
    override def stop(): Unit = ()
  }

  private def run(): Run = new Run(RunName("q", "r", None))

  test("what was tried of a query's hot keys is not tried anew") {
    val (one, other) = (run(), run())
    def tried(run: Run, operatorId: Long) = run.trial(operatorId)(new SpreadTrial(startup = 0))
    val trial = tried(one, 0L)
    assert(tried(one, 0L) eq trial)
    assert((tried(one, 1L) ne trial) && (tried(other, 0L) ne trial))
  }

  test("stages keep their numbers, also if a batch leaves one out") {
    def stage() = LocalTableScanExec(Nil, Nil, Some(new Source))
    val (one, other) = (stage(), stage())
    def batch(of: Run, plans: LocalTableScanExec*) = {
      val numbers = new RowWiseNumbers(of)
      plans.map(numbers.of(_))
    }
    val (first, second) = (run(), run())
    val numbers = batch(first, one, other)
    assert(numbers == Seq(1000L, 1001L))
    assert(batch(second, other) == Seq(1000L), "another run's are its own")
    assert(batch(first, other) == numbers.tail && batch(first, one, other) == numbers)
  }
}
