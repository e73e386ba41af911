package org.apache.spark.sql.laneshift

import laneshift.testing.{Deep, LimitedSuite}

/** Lanes that are reached over the network, under constant motion to and from them: the same rows as stock, in the same order per
  * key, the same state, the same counts.
  */
class RemotePairSuite extends LimitedSuite with ElasticSession {
  private val rows = TestInput.realTime

  /** Sessions of every batch begin anew, so that batches of several thousand rows are the shortest that use them. */
  private val chunks =
    Seq(0, 1, 2).map(i => TestInput.rows(seed = 50L + i, first = i * 4000, count = 4000, keys = 60))

  private val remote = Seq("spark.sql.laneshift.motion.remoteLanes" -> "2")

  private def used(body: => RunResult): Unit = {
    PairCheck.overTheNetwork(remote)(body)
    ()
  }

  RealTimePairSuite.cases.zipWithIndex.foreach { case (query, i) =>
    test(
      s"Real-time Mode: ${query.name} equals stock with lanes over the network",
      Deep.Remote
    ) {
      used(PairCheck.realTime(spark, this, query, rows, seed = 100L + i, remote: _*))
    }
  }

  test(
    "Real-time Mode: transformWithState with timers equals stock with lanes over the network",
    Deep.Remote
  ) {
    val rows = RowByRow.input
    used {
      val elastic = PairCheck.realTimeByClock(spark, this, RowByRow.query, rows, seed = 109L, remote: _*)
      assert(elastic.batches.head.count(_.getString(1) == "fired") == rows.map(_.key).distinct.size)
      elastic
    }
  }

  test("micro-batches: dropDuplicates equals stock with lanes over the network", Deep.Remote) {
    val query = QueryCase("dropDuplicates", "append")(_.dropDuplicates("key", "number").select("key", "id"))
    used(PairCheck.microBatch(spark, this, query, chunks, seed = 110L, remote: _*))
  }

  test("micro-batches: dropDuplicatesWithinWatermark equals stock with lanes over the network", Deep.Remote) {
    val query = QueryCase("dropDuplicatesWithinWatermark", "append")(
      _.withWatermark("time", "20 seconds").dropDuplicatesWithinWatermark("key", "number").select("key", "id")
    )
    used(PairCheck.microBatch(spark, this, query, chunks, seed = 111L, remote: _*))
  }

  // ---- lanes that are there from the first row to the last commit

  private val short = TestInput.chunks

  RemotePairSuite.blocking.zipWithIndex.foreach { case (query, i) =>
    test(
      s"micro-batches: ${query.name} equals stock with lanes over the network",
      Deep.Remote
    ) {
      used {
        val elastic = PairCheck.microBatch(spark, this, query, short, seed = 120L + i, remote: _*)
        assert(elastic.plan.contains("handoff between-batches"), elastic.plan)
        elastic
      }
    }
  }

  Seq(MicroBatchPairSuite.cases.head, JoinCases.ranges(1)).foreach { query =>
    test(
      s"micro-batches: ${query.name}, with checkpoint ids, equals stock with lanes over the network",
      Deep.Remote
    ) {
      val ids = "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2"
      used(PairCheck.microBatch(spark, this, query, short, seed = 150L, remote :+ ids: _*))
    }
  }

  private val little = Seq(
    "spark.sql.laneshift.remote.cacheBytes" -> "0",
    "spark.sql.laneshift.remote.windowBytes" -> "32k",
    "spark.sql.laneshift.queueBytes" -> "1k"
  )

  Seq(MicroBatchPairSuite.cases(1), JoinCases.deduplicated).foreach { query =>
    test(
      s"micro-batches: ${query.name}, nothing is cached elsewhere, and little may be on its way",
      Deep.Remote.unless(query == JoinCases.deduplicated): _*
    ) {
      used(PairCheck.microBatch(spark, this, query, short, seed = 151L, remote ++ little: _*))
    }
  }

  test(
    "micro-batches: dropDuplicates that evicts as rows come equals stock with lanes over the network",
    Deep.Remote
  ) {
    val query = MicroBatchPairSuite.cases.filter(_.name.contains("atermark")).last
    val evicting = "spark.sql.streaming.statefulOperator.incrementalCleanupFactor" -> "2"
    used(PairCheck.microBatch(spark, this, query, short, seed = 152L, remote :+ evicting: _*))
  }
}

object RemotePairSuite {

  /** Operators that hand shards off between batches only, one of each kind. */
  val blocking: Seq[QueryCase] = MicroBatchPairSuite.cases.take(3) ++
    Seq(SessionWindowPairSuite.cases.head, SessionWindowPairSuite.cases(1)) ++
    GroupStatePairSuite.cases.slice(2, 5) ++
    TransformWithStatePairSuite.cases ++
    JoinCases.ranges.take(2) ++ JoinCases.ranges.slice(3, 4) ++ JoinCases.windows.take(1) ++
    JoinCases.chains.map(_._1).slice(1, 3) :+ JoinCases.deduplicated
}
