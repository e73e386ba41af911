package org.apache.spark.sql.laneshift.workload

import java.util.concurrent.atomic.AtomicReference

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.{Asked, Leftovers, Patience}
import org.apache.spark.sql.laneshift.driver.{DriverState, Run, RunName, SourceThrottle}
import org.apache.spark.sql.laneshift.driver.SourceThrottle.msPerBatch
import org.apache.spark.sql.laneshift.proto.{ControlMessages => pb}
import org.apache.spark.sql.laneshift.runtime.Applied
import org.apache.spark.sql.laneshift.source.{RowPace, SourceLimit, SourceRuns}
import org.apache.spark.sql.streaming.Trigger

import laneshift.testing.Deep

class SourceThrottleSuite extends WorkloadSession {

  /** Goes on as tests say. */
  @volatile private var nowNs = 0L

  private def pass(seconds: Double): Unit = nowNs += (seconds * 1e9).toLong

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    // `taken` is of all batches, however many there are.
    spark.conf.set(SQLConf.STREAMING_PROGRESS_RETENTION.key, 1000000)
  }

  /** Of the driver whose clock goes on by itself. */
  private def limit(run: Started, rate: Double, seconds: Double): Either[String, Applied] =
    limit(DriverState.get.get, run, rate, seconds)

  private def limit(
      driver: DriverState,
      run: Started,
      rate: Double,
      seconds: Double
  ): Either[String, Applied] =
    SourceThrottle.limit(driver.runs.planned(spark, run.query.runId).get, driver.executors, rate, seconds)

  /** Another driver of this Spark, with the clock of tests: it hears of batches and looks as the plugin's does. */
  private def withDriver(body: DriverState => Unit): Unit = {
    val driver = new DriverState(_ => (), DriverState.get.get.executors, () => nowNs)
    spark.sparkContext.addSparkListener(driver.runs)
    try body(driver)
    finally {
      spark.sparkContext.removeSparkListener(driver.runs)
      driver.looks.stop()
    }
  }

  private def ids(rows: Seq[Row]) = rows.map(r => (r.getInt(2), r.getLong(1))).sorted

  private def until(run: Started)(done: => Boolean): Unit = Patience.until(run.query)(done)

  /** A batch as soon as there are rows. */
  private val always = Trigger.ProcessingTime(0)

  /** Rows of each partition as they were made, without a gap and none twice. */
  private def checkWhole(rows: Seq[Row]): Unit =
    ids(rows).groupMap(_._1)(_._2).foreach { case (partition, seqs) =>
      assert(seqs == seqs.indices.map(_.toLong), s"partition $partition")
    }

  private def inForce(rate: Double) = SourceLimit(rate, nowNs + 3600L * 1000000000)

  private def pace(limit: AtomicReference[SourceLimit], readers: Int) =
    new RowPace(limit, readers, () => nowNs)

  test("a reader's rows are as far apart as the limit says; who woke up late may catch up a little") {
    val limit = new AtomicReference(inForce(100.0))
    val pace = this.pace(limit, readers = 2) // a row in 20 ms
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
    limit.set(SourceLimit(0.0, nowNs))
    assert(pace.ask(t + 1000000) == 0 && pace.isFree)
  }

  test("no rate is too high or too low to be kept to") {
    Seq(0.5, 7.0, 130000.0, 3e6).foreach { rate =>
      val pace = this.pace(new AtomicReference(inForce(3 * rate)), readers = 3)
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

  test("a limit is one run's, ends by itself and is forgotten with its run; its rows are counted") {
    val runs = new SourceRuns(() => nowNs)
    val paces = Seq(runs.pace("q", 0, 2), runs.pace("q", 1, 2))
    val other = runs.pace("other", 0, 1)
    assert(runs.pace("q", 0, 2) eq paces.head)
    assert(RowPace.of(None, 0, 1).isFree)
    runs.limit("q", 5.0, 2.0)
    assert(paces.forall(!_.isFree) && other.isFree)
    pass(1.0)
    paces.foreach(_.ask(0))
    assert(paces.forall(!_.isFree))
    pass(1.0)
    paces.foreach(_.ask(0))
    assert(paces.forall(_.isFree))
    runs.limit("q", 5.0, 3600.0)
    runs.limit("q", 5.0, 0.0)
    assert(paces.forall(_.ask(0) == 0))
    paces.foreach(_.came())
    paces.head.came()
    assert(runs.rows("q") == 3 && runs.rows("other") == 0)
    Seq("q", "other").foreach(runs.forget)
    // A task that begins as its query ends.
    runs.pace("q", 0, 2).came()
    runs.limit("q", 5.0, 3600.0)
    assert(!runs.rows.contains("q") && runs.pace("q", 0, 2).isFree)
  }

  test("micro-batch: batches read fewer rows for a while, then as before, and none is lost")(withDriver {
    driver =>
      val options = Seq("pacing" -> "none", "rowsPerBatch" -> "1000", "keys" -> "50", "seed" -> "3")
      val run = start(stream(options: _*), always)
      def isFree = run.taken.lastOption.contains(1000L)
      until(run)(isFree)
      // So little that a batch has one row however long it takes.
      assert(limit(driver, run, 1e-6, 10.0) == Right(Applied.NextBatch))
      until(run)(run.taken.last == 1)
      pass(9.0)
      val longHeld = run.taken.length
      until(run)(run.taken.length > longHeld + 2)
      assert(run.taken.drop(longHeld).forall(_ == 1))
      pass(1.0)
      until(run)(isFree)
      // One that replaces another is lifted all the same.
      assert(limit(driver, run, 1e-6, 3600.0) == Right(Applied.NextBatch))
      assert(limit(driver, run, 2e-6, 1.0) == Right(Applied.NextBatch))
      until(run)(run.taken.last == 1)
      pass(1.0)
      until(run)(isFree)
      // Ended by hand, a limit is still for a whole batch.
      val before = run.taken.length
      assert(limit(driver, run, 1e-6, 3600.0) == Right(Applied.NextBatch))
      assert(limit(driver, run, 0.0, 0.0) == Right(Applied.NextBatch))
      until(run)(run.taken.drop(before).contains(1L) && isFree)
      assert(run.taken.forall(n => n == 1 || n == 1000))
      run.query.stop()
      checkWhole(run.rows)
      noThreadStays(run)
  })

  test("micro-batch: the rows of a batch are for the time that batches take which are held back") {
    assert(msPerBatch(0, Nil) == 100 && msPerBatch(200, Nil) == 200)
    assert(msPerBatch(0, Seq(30)) == 30 && msPerBatch(200, Seq(30)) == 200)
    assert(msPerBatch(0, Seq(5000, 20, 30, 40, 50)) == 40, "one that was long")
    assert(msPerBatch(0, Seq(5000, 5000, 5000, 20, 20, 20, 5000, 5000)) == 20, "the newest five")
  }

  test(
    "micro-batch without a pause between batches: no more rows than the limit says, however short they get",
    Deep.Speed
  ) {
    val options = Seq("pacing" -> "none", "maxRowsPerTrigger" -> "200000", "keys" -> "50", "seed" -> "3")
    val run = start(stream(options: _*), always)
    until(run)(run.taken.length >= 2)
    assert(limit(run, 1000.0, 60.0) == Right(Applied.NextBatch))
    until(run)(run.taken.last < 200000)
    val before = run.taken.length
    val from = System.nanoTime()
    until(run)(System.nanoTime() - from > 3000000000L && run.taken.length > before + 4)
    val seconds = (System.nanoTime() - from) / 1e9
    // The batch that ran at first, and the next one, have rows for time before it, too.
    val rows = run.taken.drop(before + 2).sum
    run.query.stop()
    assert(rows <= 1.1 * 1000 * seconds && rows >= 200 * seconds, s"in $seconds s: ${run.taken}")
    noThreadStays(run)
  }

  private def noThreadStays(run: Started) =
    until(run)(!Leftovers.plugins.contains("laneshift look"))

  test("Real-time Mode: readers wait while the limit holds, and no row is lost") {
    val options = Seq("rowsPerSecond" -> "2000", "keys" -> "50", "seed" -> "3", "numPartitions" -> "2")
    val run = start(stream(options: _*), Trigger.RealTime("300 milliseconds"), mode = "update")
    until(run)(run.taken.sum > 0)
    def rowsNow = SourceRuns.rows(run.query.runId.toString)
    assert(limit(run, 0.0, 3600.0) == Right(Applied.Now))
    // The batch of now has had some before.
    val before = run.taken.length
    until(run)(run.taken.length > before + 2)
    val held = rowsNow
    assert(run.taken.drop(before + 1).forall(_ == 0), run.taken)
    until(run)(run.taken.length > before + 4)
    assert(rowsNow == held)
    assert(limit(run, 0.0, 0.0) == Right(Applied.Now))
    until(run)(run.taken.last > 0)
    run.query.stop()
    checkWhole(run.rows)
    until(run)(!SourceRuns.rows.contains(run.query.runId.toString))
  }

  test("what cannot be held back says why") {
    def refused(df: DataFrame): String = {
      val run = start(df, always)
      until(run)(run.taken.nonEmpty)
      try limit(run, 10.0, 1.0).swap.getOrElse(fail("it was limited"))
      finally run.query.stop()
    }
    val rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "5")
    assert(refused(rate.load()).startsWith("in micro-batch only Kafka, laneshift-workload"))
    val few = Seq("pacing" -> "none", "totalRows" -> "10")
    assert(refused(stream(few: _*).union(stream(few: _*))).startsWith("it has 2 sources"))
    val gone = new Run(RunName("00000000-0000-0000-0000-000000000000", "", None))
    val executors = DriverState.get.get.executors
    assert(SourceThrottle.limit(gone, executors, 10.0, 1.0) == Left("it has just stopped"))
  }

  test("wrong calls are refused by name") {
    def refused(query: String, rate: Double, seconds: Double) = {
      val request =
        pb.LimitSourceRequest.newBuilder().setQuery(query).setRowsPerSecond(rate).setDurationS(seconds)
      val failure = Asked("LimitSource", request.build()).getFailure
      s"${failure.getCondition} ${failure.getMessage}"
    }
    Seq(-1.0, Double.NaN, Double.PositiveInfinity).foreach { wrong =>
      assert(refused("any", wrong, 1.0).contains("LANESHIFT_OUT_OF_RANGE"))
      assert(refused("any", 1.0, wrong).contains("seconds: found"))
    }
    assert(refused("nobody", 1.0, 1.0).contains("LANESHIFT_NO_SUCH_QUERY"))
    val run =
      start(stream("pacing" -> "none", "totalRows" -> "10", "seed" -> "3"), always)
    val id = run.query.id.toString
    run.stopAfter(10)
    until(run)(refused(id, 1.0, 1.0).contains("LANESHIFT_QUERY_STOPPED"))
  }
}
