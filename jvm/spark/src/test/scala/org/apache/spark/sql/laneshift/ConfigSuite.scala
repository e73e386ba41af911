package org.apache.spark.sql.laneshift

import org.apache.commons.lang3.exception.ExceptionUtils

import org.apache.spark.{SparkConf, SparkException}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.conf.LaneshiftConf
import org.apache.spark.sql.streaming.StreamingQueryException

import laneshift.testing.LimitedSuite

/** Wrong options are refused before a query runs; EXPLAIN says what is elastic and why the rest is not. */
class ConfigSuite extends LimitedSuite with ElasticSession {
  import ConfigSuite._

  // option, wrong value, what of the value the message shows, words about what is allowed
  private val wrong = Seq(
    ("enabled", "yes", "yes", "true or false"),
    ("enabled", "1", "1", "true or false"),
    ("shardsPerPartition", "0", "0", "1 to 4096"),
    ("shardsPerPartition", "-1", "-1", "1 to 4096"),
    ("shardsPerPartition", "4097", "4097", "1 to 4096"),
    ("shardsPerPartition", "many", "many", "1 to 4096"),
    ("shardsPerPartition", "1.5", "1.5", "1 to 4096"),
    ("lanes", "0", "0", "'auto' or a whole number from 1 to 256"),
    ("lanes", "-2", "-2", "'auto' or a whole number from 1 to 256"),
    ("lanes", "257", "257", "'auto' or a whole number from 1 to 256"),
    ("lanes", "automatic", "automatic", "'auto' or a whole number from 1 to 256"),
    ("lanes", "2.5", "2.5", "'auto' or a whole number from 1 to 256"),
    ("lanes", "", "", "'auto' or a whole number from 1 to 256"),
    ("maxLanes", "0", "0", "1 to 256"),
    ("maxLanes", "257", "257", "1 to 256"),
    ("maxLanes", "x", "x", "1 to 256"),
    ("remote.port", "80", "80", "0 for any free port or a whole number from 1024 to 65535"),
    ("remote.port", "65536", "65536", "0 for any free port or a whole number from 1024 to 65535"),
    ("remote.port", "-1", "-1", "0 for any free port or a whole number from 1024 to 65535"),
    ("remote.port", "any", "any", "0 for any free port or a whole number from 1024 to 65535"),
    ("queueBytes", "1023b", "1023", "1k to 1g"),
    ("queueBytes", "2g", "2g", "1k to 1g"),
    ("queueBytes", "big", "big", "1k to 1g"),
    ("balance.enabled", "on", "on", "true or false"),
    ("balance.threshold", "1.0", "1.0", "greater than 1, at most 100"),
    ("balance.threshold", "0.5", "0.5", "greater than 1, at most 100"),
    ("balance.threshold", "101", "101", "greater than 1, at most 100"),
    ("balance.threshold", "NaN", "NaN", "greater than 1, at most 100"),
    ("balance.threshold", "high", "high", "greater than 1, at most 100"),
    ("balance.interval", "9ms", "9", "10ms to 1h"),
    ("balance.interval", "2h", "2h", "10ms to 1h"),
    ("balance.interval", "often", "often", "10ms to 1h"),
    ("balance.metric", "latency", "latency", "rows"),
    ("motion", "sometimes", "sometimes", "never"),
    ("motion.seed", "abc", "abc", "a whole number of 64 bits"),
    ("motion.interval", "0", "0", "1ms to 1min"),
    ("motion.interval", "61s", "61s", "1ms to 1min"),
    ("autoscaler", "two words", "two words", "'none', the name of a policy"),
    ("autoscaler.targetLatency", "2h", "2h", "1ms to 1h, such as '200ms', or 0 for the policy's own"),
    ("autoscaler.targetLatency", "500us", "500us", "1ms to 1h"),
    ("autoscaler.interval", "50ms", "50", "100ms to 1h"),
    ("autoscaler.interval", "soon", "soon", "100ms to 1h")
  )

  wrong.foreach { case (option, value, shown, allowed) =>
    test(s"$option=$value is refused when it is set") {
      val key = LaneshiftConf.Prefix + option
      val before = spark.conf.getOption(key)
      val error = intercept[IllegalArgumentException](spark.conf.set(key, value))
      val message = error.getMessage
      assert(message.contains(key) && message.contains(shown) && message.contains(allowed))
      assert(spark.conf.getOption(key) == before, "the wrong value has not stuck")
    }
  }

  test("a wrong secret is refused without being repeated") {
    val key = LaneshiftConf.Prefix + "control.token"
    val error = intercept[IllegalArgumentException](spark.conf.set(key, "too short"))
    assert(error.getMessage.contains(key) && error.getMessage.contains("16 to 512 printable"))
    assert(!error.getMessage.contains("too short"))
  }

  private val cases = Seq(TestInput.rows(seed = 1, first = 0, count = 30))
  private val counting = QueryCase("counts", "update")(_.groupBy("key").count())

  private def refused(options: (String, String)*): String = withFolder { at =>
    withConf(options: _*) {
      val life = new MicroBatchLife(spark, counting, at)
      val error = intercept[StreamingQueryException](life.run(cases.head))
      assert(life.rows.isEmpty, "rows came out before the refusal")
      ExceptionUtils.getRootCause(error).getMessage
    }
  }

  Seq("lane" -> "3", "motion.intervall" -> "5ms", "Motion" -> "always", "" -> "1").foreach {
    case (option, value) =>
      test(s"the unknown key '${LaneshiftConf.Prefix}$option' is refused before the first row") {
        val message = refused(LaneshiftConf.Prefix + option -> value)
        assert(message.startsWith(s"${LaneshiftConf.Prefix}$option is not an option of laneshift"))
        LaneshiftConf.all.foreach(known => assert(message.contains(known.key)))
      }
  }

  test("more lanes than maxLanes are refused before the first row") {
    val message = refused("spark.sql.laneshift.lanes" -> "9", "spark.sql.laneshift.maxLanes" -> "4")
    assert(message.contains("spark.sql.laneshift.lanes is 9"))
    assert(
      message.contains("spark.sql.laneshift.maxLanes allows 1 to 4") && message.contains("raise the second")
    )
  }

  test("what is read when the application starts is refused in a session that has set it otherwise") {
    val asked = Seq(
      "autoscaler" -> "laneshift",
      "autoscaler.param.horizon" -> "2",
      "control.port" -> "15010",
      "executors.max" -> "4"
    )
    val options = asked.map { case (option, value) => LaneshiftConf.Prefix + option -> value }
    options.foreach { case (key, value) =>
      val session = new SQLConf
      session.setConfString(key, value)
      val message = intercept[IllegalArgumentException](
        LaneshiftConf.checkTogether(session, new SparkConf(false))
      ).getMessage
      assert(message.startsWith(s"$key is read when the application starts"), message)
      assert(message.contains(s"--conf $key=$value"), message)
      LaneshiftConf.checkTogether(session, new SparkConf(false).set(key, value))
    }
    val any = new SQLConf
    any.setConfString(LaneshiftConf.Prefix + "control.port", "0")
    LaneshiftConf.checkTogether(any, new SparkConf(false).set(LaneshiftConf.Prefix + "control.port", "40123"))
    assert(refused(options.head).startsWith(options.head._1))
  }

  test("a wrong option leaves a running query alone") {
    withFolder { at =>
      withConf(ElasticSession.moving(1L): _*) {
        val life = new MicroBatchLife(spark, counting, at)
        val running = life.start()
        try {
          intercept[IllegalArgumentException](spark.conf.set("spark.sql.laneshift.lanes", "none"))
          life.add(cases.head)
          life.await(running)
          assert(life.rows.nonEmpty)
        } finally running.stop()
      }
    }
  }

  test("other versions of Spark are refused, with what to do") {
    Seq("4.3.0", "4.3", "4.3.1-SNAPSHOT").foreach(LaneshiftPlugin.checkVersion)
    Seq("4.2.9", "4.30.0", "5.0.0", "3.4.3", "").foreach { version =>
      val message = intercept[SparkException](LaneshiftPlugin.checkVersion(version)).getMessage
      assert(message.contains("supports Apache Spark 4.3.x") && message.contains(s"this is Spark $version"))
      assert(message.contains("spark.plugins"))
    }
  }

  test("keys of the Spark configuration are checked when the plugin starts") {
    val message = intercept[IllegalArgumentException](
      LaneshiftConf.checkKeys(Seq("spark.app.name", "spark.sql.laneshift.lanes", "spark.sql.laneshift.speed"))
    ).getMessage
    assert(message.startsWith("spark.sql.laneshift.speed is not an option"))
  }

  // ---- EXPLAIN

  private def planOf(query: QueryCase, options: (String, String)*): String = withFolder { at =>
    withConf(options: _*) {
      val life = new MicroBatchLife(spark, query, at)
      life.add(cases.head)
      val running = life.start()
      try {
        life.await(running)
        MicroBatchRun.planOf(running)
      } finally running.stop()
    }
  }

  test("EXPLAIN shows the elastic region with its settings") {
    val plan = planOf(
      counting,
      "spark.sql.laneshift.lanes" -> "3",
      "spark.sql.laneshift.maxLanes" -> "6",
      "spark.sql.laneshift.shardsPerPartition" -> "24"
    )
    assert(plan.contains("Elastic [shards 24, lanes 3 of at most 6, handoff between-batches, tasks auto]"))
    assert(plan.contains("LaneInput") && !plan.contains("not elastic"))
    val dedup = QueryCase("dedup", "append")(_.dropDuplicates("key"))
    assert(planOf(dedup).contains("lanes auto of at most 8, handoff mid-batch, tasks auto]"))
  }

  test("EXPLAIN shows nothing of ours when laneshift is off") {
    val plan = planOf(counting, ElasticSession.Stock: _*)
    assert(!plan.contains("Elastic [") && !plan.contains("LaneInput") && !plan.contains("StockStateful"))
  }

  test("EXPLAIN says why a global aggregate stays stock") {
    val plan = planOf(QueryCase("global", "update")(_.groupBy().agg(count("*"), sum("value"))))
    assert(plan.contains("StockStateful (not elastic: its input is not hash partitioned"))
    assert(plan.contains("no grouping key") && !plan.contains("Elastic ["))
  }

  test("EXPLAIN says why a limit stays stock, and what is below it does not") {
    val plan = planOf(QueryCase("limit", "append")(_.dropDuplicates("key").limit(5)))
    assert(plan.contains("StockStateful (not elastic: a limit counts the rows of the whole query"), plan)
    assert(plan.indexOf("Elastic [") > plan.indexOf("StockStateful"), plan)
  }

  test("EXPLAIN shows a join as one region with two inputs") {
    val plan = planOf(QueryCase("join", "append")(JoinCases.join("left_outer")(_)))
    assert(plan.contains("handoff between-batches, tasks auto]") && !plan.contains("not elastic"), plan)
    assert(plan.indexOf("LaneInput 0") > 0 && plan.indexOf("LaneInput 1") > plan.indexOf("LaneInput 0"), plan)
  }

  test("EXPLAIN says why another state store provider stays stock") {
    val hdfs = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    val plan = planOf(counting, "spark.sql.streaming.stateStore.providerClass" -> hdfs)
    assert(plan.contains(s"not elastic: spark.sql.streaming.stateStore.providerClass is $hdfs"))
    assert(plan.contains("RocksDBStateStoreProvider") && !plan.contains("Elastic ["))
  }

  // ---- one lane

  test("one lane in micro-batch starts no thread") {
    Seq(counting, QueryCase("dedup", "append")(_.dropDuplicates("key"))).foreach { query =>
      Seen.names.clear()
      val spied = QueryCase(query.name, query.outputMode)(
        query.build(_).select(col("key"), udf(Seen.look _).apply(col("key")))
      )
      val plan = planOf(spied, "spark.sql.laneshift.lanes" -> "1")
      assert(plan.contains("Elastic ["))
      val seen = Seen.all
      assert(seen.nonEmpty && !seen.exists(_.startsWith("laneshift ")), seen)
    }
  }
}

object ConfigSuite {

  /** The threads that are alive, and the one that runs it, at every call of a function in the lanes' body. */
  object Seen {
    val names = java.util.concurrent.ConcurrentHashMap.newKeySet[String]()
    def look(key: String): Boolean = {
      names.add(Thread.currentThread().getName)
      Leftovers.threads.foreach(names.add)
      key != null
    }
    def all: Set[String] = {
      import scala.jdk.CollectionConverters._
      names.asScala.toSet
    }
  }
}
