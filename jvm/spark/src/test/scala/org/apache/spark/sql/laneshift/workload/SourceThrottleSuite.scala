package org.apache.spark.sql.laneshift.workload

import java.util.concurrent.atomic.AtomicReference

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.laneshift.Leftovers
import org.apache.spark.sql.laneshift.api.LaneshiftGateway
import org.apache.spark.sql.laneshift.driver.DriverState
import org.apache.spark.sql.laneshift.runtime.Applied
import org.apache.spark.sql.laneshift.source.{RowPace, SourceLimit, SourceRuns}
import org.apache.spark.sql.streaming.Trigger

import laneshift.testing.Deep

class SourceThrottleSuite extends WorkloadSession {

  private def throttle = DriverState.get.get.throttle

  private def ids(rows: Seq[Row]) = rows.map(r => (r.getInt(2), r.getLong(1))).sorted

  private def until(what: => Any)(done: => Boolean): Unit = {
    val deadline = System.nanoTime() + 60L * 1000000000
    while (!done && System.nanoTime() < deadline) Thread.sleep(20)
    assert(done, what)
  }

  private def inForce(rate: Double) = SourceLimit(rate, System.nanoTime() + 3600L * 1000000000)

  test("a reader's rows are as far apart as the limit says; who woke up late may catch up a little") {
    val limit = new AtomicReference(inForce(100.0))
    val pace = new RowPace(limit, readers = 2) // a row in 20 ms
    val t = 1000000000000000L
    assert(pace.ask(t) == 0 && pace.ask(t) == 0) // nothing came for long: one for now, and one of before
    assert(pace.ask(t) == 20000)
    assert(pace.ask(t + 5000) == 15000)
    assert(pace.ask(t + 25000) == 0)
    assert(pace.ask(t + 25000) == 15000)
    limit.set(inForce(1000.0)) // a row in 2 ms
    assert(pace.ask(t + 25000) == 1500)
    limit.set(inForce(0.0))
    assert(pace.ask(t + 1000000) > 1000000000L && !pace.isFree)
    limit.set(SourceLimit(0.0, System.nanoTime()))
    assert(pace.ask(t + 1000000) == 0 && pace.isFree)
  }

  test("no rate is too high or too low to be kept to") {
    Seq(0.5, 7.0, 130000.0, 3e6).foreach { rate =>
      val pace = new RowPace(new AtomicReference(inForce(3 * rate)), readers = 3)
      var now = 1000000000000000L
      val end = now + 20 * 1000000L
      var rows = 0
      while (now < end) {
        val wait = pace.ask(now)
        if (wait == 0) rows += 1 else now += wait
      }
      assert(rows >= 20 * rate * 0.99 && rows <= 20.05 * rate + 1, s"$rate rows a second")
    }
  }

  test(
    "a limit is one run's, ends by itself and is forgotten with its run; its rows are counted",
    Deep.Speed
  ) {
    val paces = Seq(SourceRuns.pace("q", 0, 2), SourceRuns.pace("q", 1, 2))
    val other = SourceRuns.pace("other", 0, 1)
    assert(SourceRuns.pace("q", 0, 2) eq paces.head)
    assert(RowPace.of(None, 0, 1).isFree)
    SourceRuns.limit("q", 5.0, 0.2)
    assert(paces.forall(!_.isFree) && other.isFree)
    Thread.sleep(250)
    paces.foreach(_.ask(0))
    assert(paces.forall(_.isFree))
    SourceRuns.limit("q", 5.0, 3600.0)
    SourceRuns.limit("q", 5.0, 0.0)
    assert(paces.forall(_.ask(0) == 0))
    paces.foreach(_.came())
    paces.head.came()
    assert(SourceRuns.rows("q") == 3 && SourceRuns.rows("other") == 0)
    Seq("q", "other").foreach(SourceRuns.forget)
    // A task that begins as its query ends.
    SourceRuns.pace("q", 0, 2).came()
    SourceRuns.limit("q", 5.0, 3600.0)
    assert(!SourceRuns.rows.contains("q") && SourceRuns.pace("q", 0, 2).isFree)
  }

  test("micro-batch: batches read fewer rows for a while, then as before, and none is lost", Deep.Speed) {
    val options =
      Seq("pacing" -> "none", "rowsPerBatch" -> "1000", "totalRows" -> "20000", "keys" -> "50", "seed" -> "3")
    val run = start(stream(options: _*), Trigger.ProcessingTime("200 milliseconds"))
    until(run.taken)(run.taken.length >= 2)
    val id = run.query.id.toString
    assert(throttle.limit(id, 5.0, 0.5) == Right(Applied.NextBatch))
    // Replaces it, and is lifted all the same.
    assert(throttle.limit(id, 500.0, 0.5) == Right(Applied.NextBatch))
    until(run.taken)(run.taken.exists(n => n > 0 && n < 1000))
    val held = run.taken.indexWhere(n => n > 0 && n < 1000)
    until(run.taken)(run.taken.drop(held).contains(1000L))
    assert(run.taken.forall(_ <= 1000))
    // Ended by hand, a limit is still for a whole batch.
    assert(throttle.limit(id, 500.0, 3600) == Right(Applied.NextBatch))
    assert(throttle.limit(id, 0.0, 0.0) == Right(Applied.NextBatch))
    assert(ids(run.stopAfter(20000)) == ids(batch(options: _*).collect().toSeq))
    assert(run.taken.drop(held).dropWhile(_ < 1000).exists(n => n > 0 && n < 1000), run.taken)
    noThreadStays()
  }

  test(
    "micro-batch without a pause between batches: no more rows than the limit says, however short they get",
    Deep.Speed
  ) {
    val options = Seq("pacing" -> "none", "maxRowsPerTrigger" -> "200000", "keys" -> "50", "seed" -> "3")
    val run = start(stream(options: _*), Trigger.ProcessingTime(0))
    until(run.taken)(run.taken.length >= 2)
    assert(throttle.limit(run.query.id.toString, 1000.0, 60.0) == Right(Applied.NextBatch))
    until(run.taken)(run.taken.last < 200000)
    val before = run.taken.length
    val from = System.nanoTime()
    until(run.taken)(System.nanoTime() - from > 3000000000L && run.taken.length > before + 4)
    val seconds = (System.nanoTime() - from) / 1e9
    // The batch that ran at first, and the next one, have rows for time before it, too.
    val rows = run.taken.drop(before + 2).sum
    run.query.stop()
    assert(rows <= 1.1 * 1000 * seconds && rows >= 200 * seconds, s"in $seconds s: ${run.taken}")
    noThreadStays()
  }

  private def noThreadStays() =
    until("the thread has ended")(!Leftovers.threads.contains("laneshift source limits"))

  test("Real-time Mode: readers wait while the limit holds, and no row is lost", Deep.Speed) {
    val options = Seq(
      "rowsPerSecond" -> "2000",
      "totalRows" -> "12000",
      "keys" -> "50",
      "seed" -> "3",
      "numPartitions" -> "2"
    )
    val run = start(stream(options: _*), Trigger.RealTime("1 second"), mode = "update")
    until(run.taken)(run.taken.nonEmpty)
    def rowsNow = SourceRuns.rows(run.query.runId.toString)
    assert(throttle.limit(run.query.id.toString, 100.0, 4.0) == Right(Applied.Now))
    val from = (System.nanoTime(), rowsNow)
    Thread.sleep(3000)
    val seconds = (System.nanoTime() - from._1) / 1e9
    val came = rowsNow - from._2
    assert(came <= 1.2 * 100 * seconds + 10 && came >= 10, s"in $seconds s")
    until(run.taken)(rowsNow == 12000)
    val rows = run.stopAfter(12000)
    assert(run.taken.forall(_ > 0) && run.taken.max > 1000, run.taken)
    assert(ids(rows) == ids(batch(options: _*).collect().toSeq))
    until("the run is forgotten")(!SourceRuns.rows.contains(run.query.runId.toString))
  }

  test("what cannot be held back says why") {
    def refused(df: DataFrame): String = {
      val run = start(df, Trigger.ProcessingTime(0))
      until(run.taken)(run.taken.nonEmpty)
      try throttle.limit(run.query.id.toString, 10.0, 1.0).swap.getOrElse(fail("it was limited"))
      finally run.query.stop()
    }
    val rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "5")
    assert(refused(rate.load()).startsWith("in micro-batch only Kafka, laneshift-workload"))
    val few = Seq("pacing" -> "none", "totalRows" -> "10")
    assert(refused(stream(few: _*).union(stream(few: _*))).startsWith("it has 2 sources"))
    val gone = "00000000-0000-0000-0000-000000000000"
    assert(throttle.limit(gone, 10.0, 1.0) == Left("it has just stopped"))
  }

  test("wrong calls are refused by name") {
    def refused(query: String, rate: Double, seconds: Double) =
      LaneshiftGateway.limitSource(query, rate, seconds)
    Seq(-1.0, Double.NaN, Double.PositiveInfinity).foreach { wrong =>
      assert(refused("any", wrong, 1.0).contains("LANESHIFT_OUT_OF_RANGE"))
      assert(refused("any", 1.0, wrong).contains("seconds: found"))
    }
    assert(refused("nobody", 1.0, 1.0).contains("LANESHIFT_NO_SUCH_QUERY"))
    val run =
      start(stream("pacing" -> "none", "totalRows" -> "10", "seed" -> "3"), Trigger.ProcessingTime(0))
    val id = run.query.id.toString
    run.stopAfter(10)
    until(refused(id, 1.0, 1.0))(refused(id, 1.0, 1.0).contains("LANESHIFT_QUERY_STOPPED"))
  }
}
