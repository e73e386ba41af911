package org.apache.spark.sql.laneshift.workload.replay

import java.nio.file.Files
import java.time.Instant

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.{col, count, lit, spark_partition_id, sum}
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.types.{IntegerType, StringType, StructField, StructType}

import laneshift.testing.{Deep, DeepSuite}

class ReplaySuite extends ReplaySession with DeepSuite {
  override def room: Deep = Deep.Pairs

  private val fast = Seq("pacing" -> "none")
  private val live = Trigger.RealTime("1 second")

  test("micro-batches give the files' rows, row i to partition i mod n") {
    val df = replay(parquet, fast :+ ("numPartitions" -> "3"): _*).withColumn("p", spark_partition_id())
    val rows = start(df, Trigger.AvailableNow()).await()
    assert(inOrder(rows).map(r => Row(r(0), r(1), r(2))) == expected)
    assert(rows.forall(r => r.getInt(3) == r.getInt(0) % 3))
    for ((p, part) <- rows.groupBy(_.getInt(3))) assert(part == inOrder(part), s"partition $p")
  }

  test("Real-time Mode gives the same rows") {
    assert(inOrder(start(replay(parquet, fast: _*), live, mode = "update").stopAfter(Rows)) == expected)
  }

  test("maxRowsPerTrigger limits a micro-batch; batches follow the order of the files") {
    val run = start(replay(parquet, fast :+ ("maxRowsPerTrigger" -> "1300"): _*), Trigger.AvailableNow())
    val rows = run.await()
    assert(run.taken.filter(_ > 0) == Seq(1300, 1300, 400))
    assert(rows.take(1300).map(_.getInt(0)).toSet == (0 until 1300).toSet)
  }

  for ((mode, trigger) <- Seq("append" -> Trigger.ProcessingTime(0), "update" -> live))
    test(s"partitionBy keeps the order of each key's rows, with $trigger") {
      val options = Seq("partitionBy" -> "KEY", "numPartitions" -> "3", "rowsPerSecond" -> "2000")
      val df = replay(parquet, options: _*).withColumn("p", spark_partition_id())
      val rows = start(df, trigger, mode = mode).stopAfter(Rows)
      assert(inOrder(rows).map(r => Row(r(0), r(1), r(2))) == expected)
      for ((key, its) <- rows.groupBy(_.getString(1))) {
        assert(its == inOrder(its), s"order of $key")
        assert(its.map(_.getInt(3)).distinct.length == 1, s"partitions of $key")
      }
      assert(rows.map(_.getInt(3)).distinct.length > 1)
    }

  test("a restart goes on where the checkpoint ends, from Real-time Mode to micro-batches, too", Deep.Speed) {
    val checkpoint = folder()
    val options = Seq("rowsPerSecond" -> "1000", "partitionBy" -> "key")
    val first = start(replay(parquet, options: _*), live, checkpoint, "update").stopAfter(1)
    assert(first.nonEmpty && first.length < Rows)
    val second = start(replay(parquet, options: _*), live, checkpoint, "update").stopAfter(1)
    val third = start(replay(parquet, options: _*), Trigger.AvailableNow(), checkpoint).await()
    assert(third.length < Rows)
    val all = first ++ second ++ third
    assert(inOrder(all.distinct) == expected) // the batch that the stop cut short comes twice
    assert(start(replay(parquet, options: _*), Trigger.AvailableNow(), checkpoint).await().isEmpty)
  }

  test("a batch that was planned but not committed is read again as it was, from moved files, too") {
    val checkpoint = folder()
    val options = fast ++ Seq("maxRowsPerTrigger" -> "1000", "sentColumn" -> "sent", "partitionBy" -> "key")
    val once = start(replay(parquet, options: _*), Trigger.AvailableNow(), checkpoint).await()
    Seq("2", ".2.crc").foreach(name => Files.delete(checkpoint.resolve(s"commits/$name")))
    val moved = folder()
    Files.list(parquet).forEach { f => Files.copy(f, moved.resolve(f.getFileName)); () }
    val again = start(replay(moved, options: _*), Trigger.AvailableNow(), checkpoint).await()
    assert(again.length == 1000 && inOrder(again) == inOrder(once).drop(2000))
  }

  test("sentColumn is when a row is due, and no row comes before") {
    val schema = StructType.fromDDL("n INT, sent TIMESTAMP, key STRING")
    val df = spark.readStream.format("laneshift-replay").schema(schema)
      .options(Map("path" -> parquet.toString, "rowsPerSecond" -> "2000", "sentColumn" -> "sent")).load()
    val rows = inOrder(start(df, live, mode = "update").stopAfter(Rows))
    val end = Instant.now()
    val seen =
      rows.map(r => r.getTimestamp(1).toInstant).map(t => t.getEpochSecond * 1000000 + t.getNano / 1000)
    assert(seen.zipWithIndex.forall { case (t, i) => t - seen.head == i * 500L })
    assert(!rows.last.getTimestamp(1).toInstant.isAfter(end))
    assert(rows.map(r => Row(r(0), r(2))) == expected.map(r => Row(r(0), r(1))))
    val appended = replay(parquet, "sentColumn" -> "sent_us").schema.last
    assert(appended.name == "sent_us" && appended.dataType.typeName == "long")
  }

  test("startTime is when row 0 is due, and may not change") {
    val checkpoint = folder()
    val options = Seq("sentColumn" -> "sent", "startTime" -> "2026-01-01T00:00:00Z")
    val rows = inOrder(start(replay(parquet, options: _*), Trigger.AvailableNow(), checkpoint).await())
    assert(rows.head.getAs[Long]("sent") == 1767225600000000L)
    val moved = options.tail.map(_._1 -> "2026-01-02T00:00:00Z")
    val error = failure(start(replay(parquet, options.head +: moved: _*), Trigger.AvailableNow(), checkpoint))
    assert(error.getMessage.contains("'startTime' was 2026-01-01T00:00:00Z and is 2026-01-02T00:00:00Z"))
  }

  test("JSON lines, with their own schema and with one that is given") {
    val file = json((0 until 100).map(i => s"""{"b": "x$i", "a": $i}"""): _*)
    val rows = start(replay(file, fast: _*), Trigger.AvailableNow()).await()
    assert(rows.sortBy(_.getLong(0)) == (0 until 100).map(i => Row(i.toLong, s"x$i")))
    val schema = StructType(Seq(StructField("b", StringType), StructField("a", IntegerType)))
    val typed = spark.readStream.format("laneshift-replay").schema(schema).load(file.toString)
    assert(inOrder(start(typed.select("a", "b"), Trigger.AvailableNow()).await()).last == Row(99, "x99"))
  }

  test("many splits of one file stay in order") {
    val small = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "512")
    try {
      val file = json((0 until 500).map(i => s"""{"n": $i}"""): _*)
      val df = replay(file, fast ++ Seq("numPartitions" -> "1", "maxRowsPerTrigger" -> "7"): _*)
      val rows = start(df, Trigger.AvailableNow()).await()
      assert(rows.map(_.getLong(0)) == (0L until 500L))
    } finally spark.conf.set("spark.sql.files.maxPartitionBytes", small)
  }

  test("a stateful query has the batch answer in both modes") {
    def totals(df: org.apache.spark.sql.DataFrame) =
      df.groupBy("key").agg(count(lit(1)).as("c"), sum(col("n")).as("total"))
    val answer = totals(spark.read.parquet(parquet.toString)).collect().toSet
    def last(rows: Seq[Row]) = rows.groupBy(_.get(0)).values.map(_.maxBy(_.getLong(1))).toSet
    val realTime = start(totals(replay(parquet, fast: _*)), live, mode = "update").stopAfter(Rows)
    assert(last(realTime) == answer)
    val micro = start(totals(replay(parquet, fast: _*)), Trigger.AvailableNow(), mode = "update")
    assert(last(micro.await()) == answer)
  }
}
