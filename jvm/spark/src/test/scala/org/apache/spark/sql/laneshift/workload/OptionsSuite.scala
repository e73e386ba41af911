package org.apache.spark.sql.laneshift.workload

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.util.CaseInsensitiveStringMap

class OptionsSuite extends WorkloadSession {

  private def parse(options: (String, String)*): MadeUpOptions[WorkloadSpec] =
    WorkloadOptions.parse(new CaseInsensitiveStringMap(options.toMap.asJava), new Configuration(false))

  private def refused(options: (String, String)*): String =
    intercept[WorkloadOptionException](parse(options: _*)).getMessage

  test("defaults") {
    val o = parse()
    assert(o.rows.keys == 10000 && o.rows.zipf == 0.5 && o.rows.omega == 0 && o.rows.payloadBytes == 128)
    assert(o.rows.partitions == 2 && o.rows.seed == 0 && o.rows.schedule.rates.toSeq == Seq(1000.0))
    assert(o.paced && !o.rows.bounded && o.start.isEmpty && o.batchLimit.isEmpty)
  }

  test("names and words in any case") {
    val o = parse("KEYS" -> "7", "rowsperbatch" -> "5", "Rate" -> "SINE", "RATEPERIOD" -> "2M")
    assert(o.rows.keys == 7 && o.limits.head == "rowsPerBatch" -> Some(
      5L
    ) && o.rows.schedule.edges.last == 120000000)
  }

  test("times, spans and lists") {
    assert(parse("startTime" -> "2026-01-31T13:00:00+01:00").start.contains(1769860800000000L))
    assert(parse("rate" -> "sine", "ratePeriod" -> "1.5s").rows.schedule.edges.last == 1500000)
    val stages = parse("rate" -> "stage", "rateStages" -> "100:10s, 800:500ms").rows.schedule
    assert(stages.rates.toSeq == Seq(100.0, 800.0) && stages.edges.toSeq == Seq(0L, 10000000L, 10500000L))
    assert(parse(
      "rate" -> "trace",
      "rateTrace" -> "1, 2.5,3e2"
    ).rows.schedule.rates.toSeq == Seq(1.0, 2.5, 300.0))
  }

  test("a trace from a file") {
    val file = Files.createTempFile("laneshift", ".trace")
    try {
      Files.writeString(file, "# rows per second\n10\n\n20 # busier\n")
      val trace = parse("rate" -> "trace", "rateTrace" -> file.toString)
      assert(trace.rows.schedule.rates.toSeq == Seq(10.0, 20.0))
      assert(trace.identity == parse("rate" -> "trace", "rateTrace" -> "10,20").identity)
      Files.writeString(file, "10\nmany\n")
      assert(refused("rate" -> "trace", "rateTrace" -> file.toString).contains("'many' is none"))
    } finally Files.delete(file)
  }

  /** Option, value, other options that it needs, and what the message must allow. */
  private val wrong: Seq[(String, String, Seq[(String, String)], String)] = Seq(
    ("keys", "0", Nil, "from 1 to 10000000"),
    ("keys", "10000001", Nil, "from 1 to 10000000"),
    ("keys", "many", Nil, "from 1 to 10000000"),
    ("keys", "1.5", Nil, "from 1 to 10000000"),
    ("keys", "", Nil, "from 1 to 10000000"),
    ("zipf", "-0.1", Nil, "from 0 to 10"),
    ("zipf", "NaN", Nil, "from 0 to 10"),
    ("omega", "-1", Nil, "from 0 to 60000"),
    ("omega", "Infinity", Nil, "from 0 to 60000"),
    ("rowBytes", "-1", Nil, "from 0 to 16777216"),
    ("rowBytes", "16777217", Nil, "from 0 to 16777216"),
    ("seed", "x", Nil, "a whole number"),
    ("numPartitions", "0", Nil, "from 1 to 10000"),
    ("startTime", "yesterday", Nil, "such as 2026-01-31T12:00:00Z"),
    ("startTime", "2026-01-31T12:00:00", Nil, "a time with its zone"),
    ("startTime", "1969-12-31T23:59:59Z", Nil, "since 1970"),
    ("rate", "square", Nil, "one of constant, sine, stage, random, trace"),
    ("rowsPerSecond", "0", Nil, "from 0.001 to 1000000000"),
    ("rowsPerSecond", "2e9", Nil, "from 0.001 to 1000000000"),
    ("ratePeriod", "10", Seq("rate" -> "sine"), "a time span"),
    ("ratePeriod", "0s", Seq("rate" -> "random"), "a time span"),
    ("ratePeriod", "9999h", Seq("rate" -> "trace", "rateTrace" -> "1"), "a time span"),
    ("rateAmplitude", "1.1", Seq("rate" -> "sine"), "from 0 to 1"),
    ("rateStages", "100", Seq("rate" -> "stage"), "a list of rate:time"),
    ("rateStages", "100:10s,,5:1s", Seq("rate" -> "stage"), "a list of rate:time"),
    ("rateStages", "0:10s", Seq("rate" -> "stage"), "one of them above 0"),
    ("rateStages", "-1:10s,5:1s", Seq("rate" -> "stage"), "rates from 0"),
    ("rateTrace", "1,,2", Seq("rate" -> "trace"), "1 to 100000 rates"),
    ("rateTrace", "0,0", Seq("rate" -> "trace"), "one of them above 0"),
    ("rateTrace", "/no/such/file", Seq("rate" -> "trace"), "a readable file"),
    ("pacing", "fast", Nil, "one of scheduled, none"),
    ("rowsPerBatch", "0", Nil, "from 1 to"),
    ("maxRowsPerTrigger", "-5", Nil, "from 1 to"),
    ("totalRows", "0", Nil, "from 1 to")
  )

  for ((name, value, others, allowed) <- wrong) test(s"wrong: $name=$value") {
    val message = refused(others :+ (name -> value): _*)
    assert(message.contains(s"'$name'") && message.contains(s"'$value'"), message)
    assert(message.contains(allowed) && message.contains("leave it out"), message)
  }

  /** Options that do not go together: the one to drop, its value, and the rest. */
  private val conflicts: Seq[(String, String, Seq[(String, String)])] = Seq(
    ("rateAmplitude", "0.5", Nil),
    ("ratePeriod", "10s", Nil),
    ("rateStages", "1:1s", Seq("rate" -> "sine")),
    ("rateTrace", "1", Seq("rate" -> "random")),
    ("rowsPerSecond", "5", Seq("rate" -> "stage", "rateStages" -> "1:1s")),
    ("rowsPerSecond", "5", Seq("rate" -> "trace", "rateTrace" -> "1")),
    ("maxRowsPerTrigger", "5", Seq("rowsPerBatch" -> "5")),
    ("pacing", "scheduled", Seq("rowsPerBatch" -> "5"))
  )

  for ((name, value, others) <- conflicts) test(s"conflict: $name=$value with ${others.mkString(", ")}") {
    val message = refused(others :+ (name -> value): _*)
    assert(
      message.contains(s"'$name'") && message.contains(s"'$value'") && message.contains("Leave it out"),
      message
    )
  }

  test("options that a rate function needs") {
    assert(refused("rate" -> "stage").contains("needs the option 'rateStages'"))
    assert(refused("rate" -> "trace").contains("needs the option 'rateTrace'"))
  }

  test("an unknown option is refused with the list of the known ones") {
    val message = refused("rowPerSecond" -> "5")
    assert(message.contains("no option 'rowPerSecond' (set to '5')"))
    assert(WorkloadOptions.Known.forall(message.contains))
  }

  test("errors come when the query is built, not when it runs") {
    val read = spark.readStream.format("laneshift-workload")
    assert(intercept[WorkloadOptionException](read.option("zipf", "-1").load()).getMessage.contains("'zipf'"))
    assert(intercept[WorkloadOptionException](read.option("path", "/x").load()).getMessage.contains("'path'"))
  }

  test("every option is in docs/workload.md") {
    val docs = Files.readString(Path.of(System.getProperty("laneshift.repo"), "docs", "workload.md"))
    val missing = WorkloadOptions.Known.filterNot(name => docs.contains(s"| `$name` |"))
    assert(missing.isEmpty, "not in a table of docs/workload.md")
  }
}
