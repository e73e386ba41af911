package org.apache.spark.sql.laneshift.workload

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{StreamingQueryException, Trigger}

import laneshift.testing.Deep

/** The measuring sink counts every row, in both modes, and tells late rows from punctual ones. */
class MeasureSuite extends WorkloadSession {
  private implicit val formats: Formats = DefaultFormats

  private def measure(
      df: DataFrame,
      trigger: Trigger,
      mode: String,
      options: (String, String)*
  )(done: JValue => Boolean): JValue = {
    val name = options.toMap.getOrElse("name", "")
    val query = df.writeStream
      .format("laneshift-measure")
      .options(options.toMap)
      .option("checkpointLocation", folder().toString)
      .outputMode(mode)
      .trigger(trigger)
      .start()
    def now = JsonMethods.parse(MeasureRegistry.read(name))
    try {
      val deadline = System.nanoTime() + 60L * 1000000000
      while (query.isActive && !done(now) && System.nanoTime() < deadline) Thread.sleep(50)
      query.exception.foreach(throw _)
      // What came after the last look, where the query has ended by itself.
      if (!query.isActive) done(now)
      now
    } finally {
      query.stop()
      MeasureRegistry.drop(name)
    }
  }

  private def rows(json: JValue): Long = (json \ "rows").extract[Long]
  private def latency(json: JValue, of: String, figure: String): Long =
    (json \ "latency_us" \ of \ figure).extract[Double].toLong

  test("micro-batch: all rows are counted, in slots of 100 ms, and begin forgets them") {
    val df = stream("pacing" -> "none", "totalRows" -> "5000")
    val found = measure(df, Trigger.AvailableNow(), "append", "name" -> "m1", "timeColumn" -> "event_time")(
      rows(_) == 5000
    )
    assert(rows(found) == 5000)
    val slots = (found \ "slots").extract[Seq[Seq[Long]]]
    assert(slots.map(_(1)).sum == 5000)
    assert(slots.forall(_(0) % 100 == 0))
    assert(latency(found, "all", "count") == 5000)
    assert((found \ "opened_ms").extract[Seq[Long]].nonEmpty)

    val meter = MeasureRegistry.of("m2")
    val tape = meter.newTape(0)
    tape.row(0)
    tape.latency(7, isSteady = true)
    tape.close()
    MeasureRegistry.begin("m2")
    val empty = JsonMethods.parse(MeasureRegistry.read("m2"))
    assert(rows(empty) == 0 && latency(empty, "all", "count") == 0)
  }

  test("every row is in one of the answers that are taken while rows come", Deep.Speed) {
    val meter = new Meter
    val tape = meter.newTape(0)
    val all = 2000000
    val writer = new Thread(() => {
      for (i <- 0 until all) {
        tape.row(i.toLong * 1000)
        tape.latency(i % 100, isSteady = false)
      }
      tape.close()
    })
    writer.start()
    var (counted, timed, takes) = (0L, 0L, 0)
    val spread = mutable.HashMap.empty[Long, Long]
    def take(): Unit = {
      val found = JsonMethods.parse(meter.take())
      counted += rows(found)
      timed += latency(found, "all", "count")
      for (List(micros, times) <- (found \ "latency_us" \ "all" \ "counts").extract[List[List[Long]]])
        spread(micros) = spread.getOrElse(micros, 0L) + times
      takes += 1
    }
    while (writer.isAlive) take()
    take()
    assert(takes > 2 && counted == all && timed == all)
    assert(spread == (0L until 100L).map(_ -> all / 100L).toMap, "each latency has its rows over all answers")
  }

  test("lines come once, in each task's order, with the time at which they came") {
    val rows = stream("pacing" -> "none", "totalRows" -> "5000")
    val df = rows.selectExpr("concat_ws(',', partition, seq) AS line")
    val before = WallClock.read()
    val options = Seq("name" -> "m5", "lineColumn" -> "line")
    def take() = MeasureRegistry.lines("m5").linesIterator.map(_.split(',').map(_.toLong).toSeq).toSeq
    var lines = Seq.empty[Seq[Long]]
    measure(df, Trigger.AvailableNow(), "append", options: _*) { _ =>
      lines ++= take()
      lines.length >= 5000
    }
    assert(take().isEmpty)
    assert(lines.forall(line => line.head >= before && line.head <= WallClock.read()))
    for ((partition, its) <- lines.groupBy(_(1)))
      assert(its.map(_(2)) == its.indices, s"sequence numbers of partition $partition")
    assert(lines.length == 5000)
  }

  test("tasks write what they find to a folder, for who does not share their JVM") {
    val spool = folder().resolve("spool")
    val df = stream("pacing" -> "none", "totalRows" -> "5000")
    val options = Seq("name" -> "m6", "timeColumn" -> "event_time", "folder" -> spool.toString)
    val found = measure(df, Trigger.AvailableNow(), "append", options: _*)(rows(_) == 5000)
    val files = java.nio.file.Files.list(spool)
    val lines =
      try files.iterator.asScala.flatMap(java.nio.file.Files.readAllLines(_).asScala).toSeq
      finally files.close()
    val slots = lines.map { line =>
      val fields = line.split(' ').toSeq
      val counted = fields.drop(2).map(_.split(':').map(_.toLong).toSeq)
      assert(counted.forall(pair => pair.size == 2 && pair.head >= 0), line)
      assert(counted.map(_(1)).sum == fields(1).toLong, line)
      fields.take(2).map(_.toLong)
    }
    val registered = (found \ "slots").extract[Seq[Seq[Long]]]
    val summed = slots.groupMapReduce(_.head)(_(1))(_ + _)
    assert(summed == registered.map(s => s.head -> s(1)).toMap)
  }

  test("lines that nobody takes end the query instead of the memory") {
    val meter = new Meter
    for (_ <- 0 until Meter.MostLines) meter.keep(0, "")
    val error = intercept[IllegalStateException](meter.keep(0, ""))
    assert(error.getMessage.contains("MeasureRegistry.lines(name)"))
    meter.lines()
    meter.keep(7, "x,y")
    assert(meter.lines() == "7,x,y")
  }

  test("Real-time Mode: updates of an aggregation, late by what they waited for", Deep.Speed) {
    val df = stream("rowsPerSecond" -> "100", "totalRows" -> "800", "rowBytes" -> "0")
      .groupBy("key")
      .agg(count("*").as("n"), max("event_time").as("due"))
    val options = Seq("name" -> "m3", "timeColumn" -> "due", "settleMs" -> "0")
    val found = measure(df, Trigger.RealTime("1 second"), "update", options: _*)(rows(_) == 800)
    assert(rows(found) == 800)
    val (all, steady) = (latency(found, "all", "count"), latency(found, "steady", "count"))
    assert(all == 800 && steady > 0 && steady < all)
    assert(latency(found, "steady", "p50") <= latency(found, "all", "p99"))
    assert(latency(found, "all", "max") < 60L * 1000000)
  }

  test("a backlog's rows are late and not steady") {
    val old = java.time.Instant.now().minusSeconds(100).toString
    val df = stream("rowsPerSecond" -> "100", "totalRows" -> "1000", "startTime" -> old)
    val found = measure(df, Trigger.AvailableNow(), "append", "name" -> "m4", "timeColumn" -> "event_time")(
      rows(_) == 1000
    )
    assert(latency(found, "all", "p50") > 80L * 1000000)
    assert(latency(found, "steady", "count") == 0)
  }

  Seq(
    Seq.empty[(String, String)] -> "needs the option 'name'",
    Seq("name" -> "x", "timeColumn" -> "key") -> "'key', but that is none of the query's TIMESTAMP columns",
    Seq("name" -> "x", "lineColumn" -> "key") -> "'key', but that is none of the query's STRING columns",
    Seq("name" -> "x", "settleMs" -> "-1") -> "'settleMs' of laneshift-measure is '-1'",
    Seq("name" -> "x", "folder" -> "here") -> "'folder' of laneshift-measure is 'here'",
    Seq("name" -> "x", "speed" -> "1") -> "has no option 'speed'"
  ).foreach { case (options, message) =>
    test(s"refused: ${options.mkString(", ")}") {
      val error = intercept[StreamingQueryException] {
        measure(stream("totalRows" -> "10"), Trigger.AvailableNow(), "append", options: _*)(_ => false)
      }
      assert(error.getMessage.contains(message))
    }
  }
}
