package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.laneshift.control.{Applied, SourceLimit, SourceLimits, SourceThrottle}
import org.apache.spark.sql.streaming.Trigger

class SourceThrottleSuite extends WorkloadSession {

  private def ids(rows: Seq[Row]) = rows.map(r => (r.getInt(2), r.getLong(1))).sorted

  test("a reader's rows are as far apart as the limit says; who woke up late may catch up a little") {
    def limited(rate: Double, relative: Boolean = false) = SourceLimit(rate, relative, 0L)
    var limit = limited(100.0)
    val pace = new RowPace(() => limit, readers = 2) // a row in 20 ms
    val t = 1000000L
    assert(pace.next(t) == t) // the first row: nothing came for long
    pace.taken(t)
    assert(pace.next(t) == t + 20000)
    pace.taken(t + 20000)
    assert(pace.next(t + 25000) == t + 40000)
    assert(pace.next(t + 500000) == t + 500000)
    limit = limited(1000.0)
    assert(pace.next(t + 25000) == t + 22000)
    limit = limited(0.0)
    assert(pace.next(t + 25000) == Long.MaxValue && !pace.isFree)
    limit = null
    assert(pace.isFree && pace.next(t) < t)
    limit = limited(0.5, relative = true)
    assert(pace.next(t) < t) // a share of what is not known yet
    pace.came(1, t)
    pace.came(300, t + 500000) // 600 rows a second
    pace.taken(t + 600000)
    val half = t + 600000 + 3333
    assert(pace.next(t + 600000) == half)
    pace.came(10, t + 2000000)
    assert(pace.next(t + 600000) == half) // a share of what came when the limit did
  }

  test("a limit ends by itself, and is one query's") {
    SourceLimits.set("q", 5.0, relative = false, 0.2)
    assert(SourceLimits.of("q").rate == 5.0)
    assert(SourceLimits.of("other") == null && SourceLimits.of(null) == null)
    Thread.sleep(250)
    assert(SourceLimits.of("q") == null)
  }

  test("micro-batch: batches read fewer rows for a while, then as before, and none is lost") {
    val options =
      Seq("pacing" -> "none", "rowsPerBatch" -> "1000", "totalRows" -> "20000", "keys" -> "50", "seed" -> "3")
    val run = start(stream(options: _*), Trigger.ProcessingTime("200 milliseconds"))
    def wait(until: => Boolean): Unit = {
      val deadline = System.nanoTime() + 60L * 1000000000
      while (!until && System.nanoTime() < deadline) Thread.sleep(20)
      assert(until, run.taken)
    }
    wait(run.taken.length >= 2)
    val id = run.query.id.toString
    assert(SourceThrottle.limit(id, 0.2, relative = true, 0.5) == Right(Applied.NextBatch))
    // Replaces it, and is lifted all the same.
    assert(SourceThrottle.limit(id, 500.0, relative = false, 0.5) == Right(Applied.NextBatch))
    wait(run.taken.exists(n => n > 0 && n < 1000))
    val held = run.taken.indexWhere(n => n > 0 && n < 1000)
    wait(run.taken.drop(held).contains(1000L))
    assert(run.taken.forall(_ <= 1000))
    assert(ids(run.stopAfter(20000)) == ids(batch(options: _*).collect().toSeq))
  }

  test("Real-time Mode: readers wait while the limit holds, and no row is lost") {
    val options = Seq(
      "rowsPerSecond" -> "2000",
      "totalRows" -> "12000",
      "keys" -> "50",
      "seed" -> "3",
      "numPartitions" -> "2"
    )
    val run = start(stream(options: _*), Trigger.RealTime("1 second"), mode = "update")
    val deadline = System.nanoTime() + 60L * 1000000000
    while (run.taken.isEmpty && System.nanoTime() < deadline) Thread.sleep(20)
    SourceLimits.set(run.query.id.toString, 100.0, relative = false, 4.0)
    val rows = run.stopAfter(12000)
    assert(
      run.taken.exists(n => n >= 20 && n <= 300),
      s"100 rows a second for 4 s, batches of 1 s: ${run.taken}"
    )
    assert(ids(rows) == ids(batch(options: _*).collect().toSeq))
  }

  test("what cannot be held back says why") {
    def refused(df: DataFrame): String = {
      val run = start(df, Trigger.ProcessingTime(0))
      val deadline = System.nanoTime() + 60L * 1000000000
      while (run.taken.isEmpty && System.nanoTime() < deadline) Thread.sleep(20)
      try SourceThrottle.limit(
          run.query.id.toString,
          10.0,
          relative = false,
          1.0
        ).swap.getOrElse(fail("it was limited"))
      finally run.query.stop()
    }
    val rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "5")
    assert(refused(rate.load()).startsWith("in micro-batch only Kafka, laneshift-workload"))
    val few = Seq("pacing" -> "none", "totalRows" -> "10")
    assert(refused(stream(few: _*).union(stream(few: _*))).startsWith("it has 2 sources"))
    val gone = "00000000-0000-0000-0000-000000000000"
    assert(SourceThrottle.limit(gone, 10.0, relative = false, 1.0) == Left("it has just stopped"))
  }
}
