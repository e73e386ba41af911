package org.apache.spark.sql.laneshift

import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.driver.DriverState
import org.apache.spark.sql.laneshift.runtime.Cores
import org.apache.spark.sql.laneshift.workload.WorkloadFunctions
import org.apache.spark.sql.streaming.StreamingQuery

import laneshift.testing.{Deep, LimitedSuite}

/** Joins with half of both sides' rows on one key, what is done with each match apart from the state (docs/handoff.md,
  * section 14): stock's rows in stock's order, stock's state and counts, while lanes come and go.
  */
class HotJoinPairSuite extends LimitedSuite with ElasticSession {
  import HotJoinPairSuite._

  private val spread = "spark.sql.laneshift.hotKeys.spread" -> "true"
  private val chunks =
    Seq(0, 500, 1000).map(first => heated(TestInput.rows(seed = 35, first.toLong, 500), of = 5))

  private def pair(query: QueryCase, seed: Long, formatVersion: Int): RunResult =
    PairCheck.microBatchInOrder(
      spark,
      this,
      query,
      chunks,
      seed,
      spread,
      "spark.sql.streaming.join.stateFormatVersion" -> formatVersion.toString
    )

  JoinCases.types.zipWithIndex.foreach { case (how, i) =>
    (2 to 4).foreach { n =>
      test(
        s"$how join, state format $n, its matches' work apart",
        Deep.Pairs.unless(n == 4 && how == "full_outer"): _*
      ) {
        val elastic = pair(matched(how), 100L + 10 * i + n, n)
        assert(isApart(elastic.plan), elastic.plan)
        val hot = elastic.batches.flatten.count(_.getString(0) == "hot")
        assert(hot > 100, "next to no matches of the hot key")
        assert(elastic.counts.last.exists(_.rowsRemoved > 0), "nothing was evicted")
      }
    }
  }

  private def notes(running: StreamingQuery): Seq[String] = DriverState.get.toSeq.flatMap(
    _.decisions.newest(1000).flatMap(_.notes).filter(_.contains(running.runId.toString)).reverse
  )

  // A key's matches go with the square of its rows: with a tenth of them it may have nine tenths of the matches.
  for (of <- Seq(5, 1))
    test(
      s"a key with $of of ten rows of both sides: its matches' work goes apart once that is measured",
      Deep.Policies
    ) {
      val load = Cores.machineLoad
      Cores.machineLoad = () => 0.0
      try
        withConf("spark.sql.laneshift.lanes" -> "4")(withFolder { at =>
          val life = new MicroBatchLife(spark, waiting(if (of == 1) 3000 else 300), at)
          val running = life.start()
          val added = (0 until 6).map(i => heated(spaced(i, if (of == 1) 1000 else 500), of))
          var apart = Seq.empty[Boolean]
          try added.foreach { rows =>
              life.add(rows)
              life.await(running)
              apart :+= isApart(MicroBatchRun.planOf(running))
            }
          finally running.stop()
          val said = notes(running)
          assert(apart.contains(true), s"$apart $said")
          // A batch without rows, for the watermark, may be the next one.
          assert(!said.head.contains("from batch 0 on"), said)
          assert(said.head.contains("row-wise work above the state goes to any lane"), said)
          val expected = added.flatMap(matches).sorted
          assert(life.rows.map(row => (row.getLong(1), row.getLong(2))).sorted == expected)
          Leftovers.check()
        })
      finally Cores.machineLoad = load
    }
}

object HotJoinPairSuite {

  private def isApart(plan: String): Boolean =
    "Elastic \\[(row-wise|shards)".r.findAllMatchIn(plan).map(_.group(1)).toSeq
      .containsSlice(Seq("row-wise", "shards"))

  /** Lanes overtake each other. */
  private lazy val slow = udf { (n: Long) =>
    if (n % 13 == 0) Thread.sleep(1L)
    n * 3
  }

  /** The key first, and a function of each match. */
  private def matched(how: String): QueryCase = QueryCase(s"$how join", "append") { input =>
    val joined = JoinCases.join(how)(input)
    if (how == "left_semi") joined.withColumn("f", slow(col("li")))
    else
      joined.select(
        coalesce(col("lk"), col("rk")).as("k"),
        col("li"),
        col("ri"),
        col("ra"),
        slow(coalesce(col("li") + col("ri"), col("li"), col("ri"))).as("f")
      )
  }

  /** Each match waits. */
  private def waiting(micros: Int): QueryCase = QueryCase("matches that wait", "append")(
    JoinCases.join("inner")(_)
      .selectExpr("lk", s"${WorkloadFunctions.Cost}(li, double($micros), 'wait') as li", "ri")
  )

  /** So many of ten rows of either side, even ids and odd ones, have one key. */
  private def heated(rows: Seq[TestInput], of: Int): Seq[TestInput] =
    rows.map(row => if (row.id / 2 % 10 < of) row.copy(key = "hot", number = 4) else row)

  /** Rows close to each other, of which two at a time have a key, long after those of the batch before. */
  private def spaced(batch: Int, count: Int): Seq[TestInput] =
    TestInput.rows(seed = 36, batch * 100000L, count, msPerRow = 1)
      .map(row => row.copy(key = s"key-${row.id / 2}"))

  /** What the inner join gives of one batch's rows: ids of both sides. */
  private def matches(rows: Seq[TestInput]): Seq[(Long, Long)] = {
    val (left, right) = rows.partition(_.id % 2 == 0)
    val byKey = right.groupBy(_.key)
    for {
      l <- left
      r <- byKey.getOrElse(l.key, Nil)
      after = r.time.getTime - l.time.getTime
      if after >= -2000 && after <= 1000
    } yield (l.id, r.id)
  }
}
