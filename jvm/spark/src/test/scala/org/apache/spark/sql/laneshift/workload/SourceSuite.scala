package org.apache.spark.sql.laneshift.workload

import java.nio.file.Files
import java.sql.Timestamp
import java.time.Instant

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.{col, count, sum}
import org.apache.spark.sql.streaming.{StreamingQueryException, Trigger}

import laneshift.testing.{Deep, DeepSuite}

class SourceSuite extends WorkloadSession with DeepSuite {
  override def room: Deep = Deep.Pairs

  private val start = "2026-01-01T00:00:00Z" // past: every row is due
  private val options = Seq(
    "keys" -> "50",
    "zipf" -> "1.0",
    "omega" -> "60",
    "rowBytes" -> "16",
    "seed" -> "9",
    "numPartitions" -> "2",
    "startTime" -> start,
    "rowsPerSecond" -> "500",
    "totalRows" -> "4000"
  )
  private lazy val expected = sorted(batch(options: _*).collect().toSeq)

  private def sorted(rows: Seq[Row]): Seq[Seq[Any]] = rows
    .map(_.toSeq.map { case bytes: Array[Byte] => bytes.toSeq; case x => x })
    .sortBy(r => (r(2).asInstanceOf[Int], r(1).asInstanceOf[Long]))

  test("a batch read gives all rows") {
    assert(expected.length == 4000)
    assert(expected.count(_(2) == 0) == 2000)
    assert(
      expected.map(_(4).asInstanceOf[Timestamp].toInstant).max == Instant.parse(start).plusMillis(3999 * 2)
    )
  }

  test("Trigger.AvailableNow ends after totalRows, with rows that are not yet due") {
    val future = options.toMap + ("startTime" -> "2150-01-01T00:00:00Z")
    val run = this.start(stream(future.toSeq: _*), Trigger.AvailableNow())
    assert(sorted(run.await()).map(_.take(4)) == expected.map(_.take(4)))
  }

  test("micro-batches of fixed size, across a restart") {
    val checkpoint = folder()
    val df = stream(options :+ ("rowsPerBatch" -> "300"): _*)
    val first = this.start(df, Trigger.ProcessingTime(0), checkpoint)
    val before = first.stopAfter(900)
    assert(first.taken.forall(n => n == 300 || n == 0))
    val after = this.start(df, Trigger.AvailableNow(), checkpoint).await()
    assert(before.length >= 900 && after.nonEmpty)
    assert(sorted(before ++ after).distinct == expected)
  }

  test("a batch that was planned but not committed is read again as it was") {
    val checkpoint = folder()
    val untimed = options.filterNot(_._1 == "startTime") :+ ("maxRowsPerTrigger" -> "1000")
    val once = this.start(stream(untimed: _*), Trigger.AvailableNow(), checkpoint).await()
    Seq("3", ".3.crc").foreach(name => Files.delete(checkpoint.resolve(s"commits/$name")))
    val again = this.start(stream(untimed: _*), Trigger.AvailableNow(), checkpoint).await()
    assert(again.length == 1000)
    assert(sorted(again) == sorted(once).filter(_(1).asInstanceOf[Long] >= 1500))
  }

  test("a paced stream takes what is due") {
    val begin = System.nanoTime()
    val df = stream("rowsPerSecond" -> "200", "numPartitions" -> "2")
    val rows = this.start(df, Trigger.ProcessingTime(0)).stopAfter(100)
    val seconds = (System.nanoTime() - begin) / 1e9
    assert(rows.length <= 200 * seconds + 1)
    val last = rows.map(_.getTimestamp(4).toInstant).max
    assert(!last.isAfter(Instant.now()))
  }

  test("maxRowsPerTrigger limits a batch") {
    val run = this.start(stream(options :+ ("maxRowsPerTrigger" -> "1500"): _*), Trigger.AvailableNow())
    assert(sorted(run.await()) == expected)
    assert(run.taken.filter(_ > 0) == Seq(
      1500,
      1500,
      1000
    ))
  }

  test("Real-time Mode gives the same rows, across a restart in the middle", Deep.Speed) {
    val checkpoint = folder()
    val untimed = options.toMap.removed("startTime").updated("rowsPerSecond", "1500").toSeq
    val run = this.start(stream(untimed: _*), Trigger.RealTime("1 second"), checkpoint, "update")
    val before = run.stopAfter(1)
    assert(before.length < 4000)
    val resumed = this.start(stream(untimed: _*), Trigger.RealTime("1 second"), checkpoint, "update")
    val after = resumed.stopWhen(before.length + resumed.rows.length >= 4000)
    val all = sorted(before ++ after).distinct // the batch that the stop cut short comes twice
    val first = all.map(_(4).asInstanceOf[Timestamp].toInstant).min
    assert(all == sorted(batch(untimed :+ ("startTime" -> first.toString): _*).collect().toSeq))
  }

  test("Real-time Mode paces rows by their event time") {
    val df = stream("rowsPerSecond" -> "300", "totalRows" -> "450", "numPartitions" -> "2", "rowBytes" -> "0")
    val begin = System.nanoTime()
    val rows = this.start(df, Trigger.RealTime("1 second"), mode = "update").stopAfter(450)
    assert(System.nanoTime() - begin >= 1490000000L) // the last row is due after 1.497 s
    assert(rows.length == 450)
  }

  test("a stateful query in Real-time Mode and in micro-batches has the batch answer") {
    def totals(df: org.apache.spark.sql.DataFrame) =
      df.groupBy("key").agg(count("*").as("n"), sum("value").as("total"))
    val answer = totals(batch(options: _*)).collect().toSet
    def last(rows: Seq[Row]) = rows.groupBy(_.getLong(0)).values.map(_.maxBy(_.getLong(1))).toSet
    val live =
      this.start(totals(stream(options: _*)), Trigger.RealTime("2 seconds"), mode = "update").stopAfter(4000)
    assert(last(live) == answer)
    val micro = this.start(
      totals(stream(options :+ ("rowsPerBatch" -> "999"): _*)),
      Trigger.AvailableNow(),
      mode = "update"
    )
    assert(last(micro.await()) == answer)
  }

  test("Real-time Mode, then micro-batches, on one checkpoint") {
    val checkpoint = folder()
    val before =
      this.start(stream(options: _*), Trigger.RealTime("1 second"), checkpoint, "update").stopAfter(4000)
    val more = options.toMap.updated("totalRows", "5000").toSeq
    val after = this.start(stream(more: _*), Trigger.AvailableNow(), checkpoint).await()
    assert(sorted(before ++ after).distinct == sorted(batch(more: _*).collect().toSeq))
  }

  test("columns can be left out") {
    assert(batch(options: _*).select(col("key")).distinct().count() <= 50)
    assert(batch(options: _*).agg(sum("seq")).head().getLong(0) == 2L * (0L until 2000L).sum)
  }

  private def failure(run: Started): String =
    intercept[StreamingQueryException](run.query.awaitTermination(60000)).getCause.getMessage

  test("a restart with other rows is refused, naming what changed") {
    val checkpoint = folder()
    this.start(stream(options: _*), Trigger.AvailableNow(), checkpoint).await()
    for (
      (name, value, said) <- Seq(
        ("seed", "10", "'seed' was '9' and is '10'"),
        ("numPartitions", "3", "'numPartitions' was '2' and is '3'"),
        ("keys", "51", "'keys' was '50' and is '51'"),
        ("zipf", "0.9", "'zipf' was '1.0' and is '0.9'"),
        ("rowsPerSecond", "501", "'rate' was 'constant 500.0' and is 'constant 501.0'"),
        (
          "startTime",
          "2026-01-02T00:00:00Z",
          "'startTime' was 2026-01-01T00:00:00Z and is 2026-01-02T00:00:00Z"
        )
      )
    ) {
      val changed = options.toMap.updated(name, value).toSeq
      val message = failure(this.start(stream(changed: _*), Trigger.AvailableNow(), checkpoint))
      assert(message.contains(said) && message.contains("new checkpoint"))
    }
  }

  test("triggers that do not fit are refused") {
    val endless = failure(this.start(stream(), Trigger.AvailableNow()))
    assert(endless.contains("Set the option totalRows"))
    for (name <- Seq("rowsPerBatch", "maxRowsPerTrigger")) {
      val message = failure(this.start(stream(name -> "10"), Trigger.RealTime("1 second"), mode = "update"))
      assert(
        message.contains(s"Option '$name'") && message.contains("'10'") && message.contains("Leave it out")
      )
    }
    val unpaced = failure(this.start(stream("pacing" -> "none"), Trigger.ProcessingTime(0)))
    assert(unpaced.contains("Set one of rowsPerBatch, maxRowsPerTrigger and totalRows"))
    assert(
      intercept[WorkloadOptionException](batch().collect()).getMessage.contains("set the option totalRows")
    )
  }
}
