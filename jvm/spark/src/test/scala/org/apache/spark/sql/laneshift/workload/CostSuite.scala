package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.{AnalysisException, DataFrame}
import org.apache.spark.sql.catalyst.expressions.{Alias, Literal}
import org.apache.spark.sql.execution.aggregate.HashAggregateExec
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.laneshift.Causes
import org.apache.spark.sql.streaming.Trigger

class CostSuite extends WorkloadSession {

  /** Runs the body; how many costs it spent. */
  private def spent(body: => Unit): Long = {
    val before = RowCost.spent.sum()
    body
    RowCost.spent.sum() - before
  }

  private def nanos(body: => Unit): Long = {
    val start = System.nanoTime()
    body
    System.nanoTime() - start
  }

  for (mode <- RowCost.Modes) test(s"$mode: n rows take n times the cost at least") {
    // On a fresh thread: nothing to make up for.
    var elapsed = 0L
    val thread = new Thread(() =>
      elapsed = nanos((1 to 200).foreach(_ => RowCost.spend(300, RowCost.Modes.indexOf(mode))))
    )
    thread.start()
    thread.join()
    assert(elapsed >= 200L * 300000)
  }

  test("wait makes up for oversleeping within its bound") {
    // A hundred thousand costs of 10 us would each sleep more than 50 us: made up, they end long before 5 s.
    val elapsed = nanos((1 to 100000).foreach(_ => RowCost.spend(10, RowCost.Modes.indexOf("wait"))))
    assert(elapsed >= 1000000000L - RowCost.MaxOwedMicros * 1000)
  }

  for (codegen <- Seq(true, false))
    test(s"values are unchanged and each row pays once, generated code: $codegen") {
      val factory = if (codegen) "CODEGEN_ONLY" else "NO_CODEGEN"
      spark.conf.set("spark.sql.codegen.wholeStage", codegen.toString)
      spark.conf.set("spark.sql.codegen.factoryMode", factory)
      try {
        val calls = spent {
          val rows = spark
            .range(0, 1000, 1, 2)
            .selectExpr(
              "id",
              "laneshift_cost(id, 1) same",
              "laneshift_cost(cast(null as string), 2.5, 'wait') none",
              "laneshift_cost(cast(id as string), cast(null as int), 'SPIN') text",
              "laneshift_cost(named_struct('a', id), id / 1000, 'pace') struct"
            )
            .collect()
          assert(rows.forall { r =>
            r.getLong(0) == r.getLong(1) && r.isNullAt(2) && r.getString(3) == r.getLong(0).toString &&
            r.getStruct(4).getLong(0) == r.getLong(0)
          })
        }
        assert(calls == 3000) // a null cost is none
      } finally {
        spark.conf.unset("spark.sql.codegen.wholeStage")
        spark.conf.unset("spark.sql.codegen.factoryMode")
      }
    }

  test("the optimiser neither doubles, merges nor folds it") {
    def count(df: DataFrame) = spent { df.collect(); () }
    val range = spark.range(0, 100, 1, 2).toDF("id")
    val once = range.select(expr("laneshift_cost(id, 1)").as("v"))
    assert(count(once.selectExpr("v + v", "v * 2", "v")) == 100)
    assert(count(range.selectExpr("laneshift_cost(id, 1) + laneshift_cost(id, 1)")) == 200)
    assert(count(range.selectExpr("laneshift_cost(7, 1) as c")) == 100)
    assert(count(once.where("v < 10 and v % 2 = 0")) == 100)
    assert(count(once.selectExpr("v as w").where("w > 90").selectExpr("w", "w + 1")) == 100)
  }

  test("above an aggregate it is paid per group, above the shuffle") {
    val counts = spark.range(0, 1000, 1, 2).selectExpr("id % 10 as k").groupBy("k").count()
    for (df <- Seq(counts.selectExpr("k", "laneshift_cost(count, 1) as n"))) {
      assert(spent(assert(df.collect().map(_.getLong(1)).toSet == Set(100L))) == 10)
      assert(df.where("k = 3").collect().length == 1)
    }
    spark.range(0, 1000, 1, 2).selectExpr("id % 10 as k").createOrReplaceTempView("numbers")
    val sql = spark.sql("select k, laneshift_cost(count(*), 1) as n from numbers group by k")
    assert(spent(assert(sql.collect().length == 10)) == 10)
    assert(sql.queryExecution.sparkPlan.collect { case a: HashAggregateExec =>
      a
    }.head.resultExpressions.exists {
      case Alias(_: LaneshiftCost, _) => true
      case _ => false
    })
  }

  private val options = Seq(
    "keys" -> "20",
    "rowBytes" -> "0",
    "startTime" -> "2026-01-01T00:00:00Z",
    "totalRows" -> "2000",
    "numPartitions" -> "1"
  )

  test("above a streaming aggregation, micro-batch") {
    val df =
      stream(options: _*).groupBy("key").count().selectExpr("key", "laneshift_cost(count, 5, 'wait') as n")
    var rows = 0
    val calls = spent { rows = start(df, Trigger.AvailableNow(), mode = "update").await().length }
    assert(rows == 20 && calls == 20)
  }

  test("above a streaming aggregation, Real-time Mode") {
    val df =
      stream(options: _*).groupBy("key").count().selectExpr("key", "laneshift_cost(count, 5, 'wait') as n")
    var rows = Seq.empty[(Long, Long)]
    val calls = spent {
      rows = start(df, Trigger.RealTime("1 second"), mode = "update").stopAfter(2000).map(r =>
        (r.getLong(0), r.getLong(1))
      )
    }
    assert(rows.length == 2000 && calls == 2000) // an output for each input
    val expected =
      batch(options: _*).groupBy("key").count().collect().map(r => r.getLong(0) -> r.getLong(1)).toMap
    assert(rows.groupMapReduce(_._1)(_._2)(math.max) == expected)
  }

  test("wrong arguments are refused when the query is built") {
    def refused(sql: String) =
      intercept[AnalysisException](spark.sql(s"select $sql from range(3)")).getMessage
    val mode = refused("laneshift_cost(id, 1, 'burn')")
    assert(mode.contains("'burn'") && mode.contains("spin, wait, pace"))
    assert(refused("laneshift_cost(id, 1, cast(id as string))").contains("must be a literal"))
    assert(refused("laneshift_cost(id, 1, cast(null as string))").contains("must be a literal"))
    val negative = refused("laneshift_cost(id, -5)")
    assert(negative.contains("-5") && negative.contains("from 0 to 60000000"))
    assert(refused("laneshift_cost(id, 60000001)").contains("from 0 to 60000000"))
    assert(refused("laneshift_cost(id, 'NaN')").contains("from 0 to 60000000"))
    assert(refused("laneshift_cost(id, array(1))").contains("DATATYPE_MISMATCH"))
    assert(refused("laneshift_cost(id)").contains("WRONG_NUM_ARGS"))
    assert(refused("laneshift_cost(id, 1, 'spin', 2)").contains("WRONG_NUM_ARGS"))
  }

  test("a wrong cost in a row stops the query with its value") {
    val failure = intercept[Exception](spark.range(3).selectExpr("laneshift_cost(id, 1 - id * 3)").collect())
    val messages = Causes.messages(failure).mkString
    assert("is -[25].0".r.findFirstIn(messages).isDefined && messages.contains("from 0 to 60000000"))
  }

  test("an interrupted thread stops spending") {
    for (mode <- RowCost.Modes.indices) {
      Thread.currentThread().interrupt()
      intercept[InterruptedException](RowCost.spend(50000000, mode))
    }
  }

  test("equal costs are two costs") {
    val cost = LaneshiftCost(Literal(1), Literal(1.0), "spin")
    assert(!cost.deterministic && !cost.foldable && !cost.semanticEquals(cost.copy()))
  }
}
