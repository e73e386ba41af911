package org.apache.spark.sql.laneshift.workload.replay

import java.nio.file.{Files, Path}

import org.apache.spark.sql.laneshift.Causes
import org.apache.spark.sql.laneshift.workload.WorkloadOptionException
import org.apache.spark.sql.streaming.Trigger

class ReplayErrorsSuite extends ReplaySession {

  private def refused(path: Path, options: (String, String)*): String =
    intercept[WorkloadOptionException](replay(path, options: _*)).getMessage

  for (
    (name, value, allowed) <- Seq(
      ("rowsPerSecond", "0", "a number from 0.001 to 1000000000"),
      ("rowsPerSecond", "fast", "a number from 0.001 to 1000000000"),
      ("numPartitions", "0", "a whole number from 1 to 1000"),
      ("numPartitions", "1001", "a whole number from 1 to 1000"),
      ("maxRowsPerTrigger", "0", "a whole number from 1 to 2000000"),
      ("startTime", "2026-01-31T12:00:00", "a time with its zone since 1970"),
      ("pacing", "slow", "one of scheduled, none"),
      (
        "partitionBy",
        "kez",
        "a column of simple type of the stream, which has: n INT, key STRING, word STRING"
      )
    )
  ) test(s"refuses $name=$value") {
    val message = refused(parquet, name -> value)
    assert(message.contains(s"Option '$name' of laneshift-replay is '$value', but must be $allowed"), message)
    assert(message.contains("leave"), message)
  }

  test("columns that do not fit are refused") {
    val read = spark.readStream.format("laneshift-replay").option("path", parquet.toString)
    def message(schema: String, options: (String, String)*) =
      intercept[WorkloadOptionException](read.schema(schema).options(options.toMap).load()).getMessage
    assert(message("n INT, sent INT", "sentColumn" -> "sent").contains("a BIGINT or TIMESTAMP column"))
    assert(message("n INT", "sentColumn" -> "sent").contains("which has: n INT"))
    assert(message("m MAP<INT, INT>", "sentColumn" -> "m").contains("a BIGINT or TIMESTAMP column"))
    val both = Seq("sentColumn" -> "s", "partitionBy" -> "s")
    assert(message("s BIGINT", both: _*).contains("'sentColumn' names the same one"))
  }

  test("an unknown option is refused with the list of the known ones") {
    val message = refused(parquet, "rowPerSecond" -> "5")
    assert(message.contains("laneshift-replay has no option 'rowPerSecond' (set to '5')"))
    assert(ReplayOptions.Known.forall(message.contains))
  }

  test("paths that cannot be replayed are refused") {
    val bare = spark.readStream.format("laneshift-replay")
    assert(intercept[WorkloadOptionException](bare.load()).getMessage.contains("needs the option 'path'"))
    def check(path: Path, said: String) = {
      val message = refused(path)
      assert(
        message.contains(s"Option 'path' of laneshift-replay is '$path'") && message.contains(said),
        message
      )
    }
    val empty = folder()
    check(empty, "there are no files")
    check(empty.resolve("nowhere"), "reading it failed")
    check(Files.createFile(empty.resolve("rows.csv")), "'rows.csv' is neither Parquet nor JSON lines")
    val mixed = folder()
    Seq("a.json", "b.parquet").foreach(name => Files.createFile(mixed.resolve(name)))
    check(mixed, "it has files of both json and parquet")
    Files.createDirectory(mixed.resolve("deeper"))
    check(mixed, "it has the sub-folder 'deeper'")
    check(json(), "its files have no columns")
  }

  test("too many rows are refused when the query starts") {
    val big = folder().resolve("big")
    spark.range(0, ReplayFiles.MaxRows + 1, 1, 2).write.parquet(big.toString)
    val error = failure(start(replay(big), Trigger.AvailableNow()))
    assert(error.isInstanceOf[WorkloadOptionException], error)
    assert(error.getMessage.contains("more than the 2,000,000 rows or 512 MB that are kept in memory"))
  }

  test("too many bytes are refused, also when a task sees them") {
    val message =
      intercept[WorkloadOptionException](ReplayFiles.checkSize("x", 1, ReplayFiles.MaxBytes + 1)).getMessage
    assert(message.contains("at least 1 rows and 512 MB"), message)
    val rows = parquetRows()
    val types = rows.schema.map(_.dataType).take(3)
    val read =
      ReplayChunk.encode(rows.queryExecution.executedPlan.executeCollect().iterator, types, 5000, 1000).toSeq
    assert(
      read.forall(_.bytes.isEmpty) && read.map(_.lengths.sum).sum > 1000 && read.head.lengths.length < 100
    )
  }

  private def parquetRows() = spark.read.parquet(parquet.toString)
    .selectExpr("n", "key", "word", "-1", "_metadata.file_name", "_metadata.file_block_start")
    .asInstanceOf[org.apache.spark.sql.classic.DataFrame]

  test("a line that is no JSON fails the query") {
    val schema = "a INT"
    val file = json("""{"a": 1}""", """{"a": """)
    val df = spark.readStream.format("laneshift-replay").schema(schema).load(file.toString)
    val error = failure(start(df, Trigger.AvailableNow()))
    assert(error.getMessage.contains("rows.jsonl"), error)
    assert(Causes.messages(error).exists(_.contains("MALFORMED")), error)
  }

  test("a restart with other rows is refused, naming what changed") {
    val checkpoint = folder()
    start(replay(parquet), Trigger.AvailableNow(), checkpoint).await()
    def message(path: Path, options: (String, String)*) =
      failure(start(replay(path, options: _*), Trigger.AvailableNow(), checkpoint)).getMessage
    assert(message(parquet, "numPartitions" -> "3").contains("'numPartitions' was '2' and is '3'"))
    assert(message(parquet, "partitionBy" -> "key").contains("'partitionBy' was 'not set' and is 'key'"))
    assert(message(parquet, "rowsPerSecond" -> "5").contains("'rowsPerSecond' was '1000.0' and is '5.0'"))
    val others = message(json((0 until 3000).map(i => s"""{"n": $i}"""): _*))
    assert(others.contains("'path' was '3000 rows with checksum") && others.contains("new checkpoint"))
  }

  test("maxRowsPerTrigger is refused in Real-time Mode") {
    val df = replay(parquet, "maxRowsPerTrigger" -> "10")
    val message = failure(start(df, Trigger.RealTime("1 second"), mode = "update")).getMessage
    assert(message.contains("Option 'maxRowsPerTrigger' of laneshift-replay is '10'"), message)
  }

  test("every option is in docs/workload.md") {
    val docs = Files.readString(Path.of(System.getProperty("laneshift.repo"), "docs", "workload.md"))
    val replays = docs.substring(docs.indexOf("## Replaying files"))
    assert(ReplayOptions.Known.filterNot(name => replays.contains(s"| `$name` |")).isEmpty)
    assert(replays.contains("2,000,000 rows") && replays.contains("512 MB"))
  }
}
