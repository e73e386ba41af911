package org.apache.spark.sql.laneshift

import laneshift.testing.{Deep, DeepSuite, LimitedSuite}

/** Joins, and chains of stateful operators, on stock Spark and elastic under motion: same rows per batch, same state, same
  * counts (docs/handoff.md, section 9).
  */
class JoinPairSuite extends LimitedSuite with ElasticSession with DeepSuite {
  override def room: Deep = Deep.Pairs
  private val chunks = TestInput.chunks

  private def regions(plan: String): Int = "Elastic \\[".r.findAllIn(plan).size

  private def pair(query: QueryCase, seed: Int, more: (String, String)*): RunResult = {
    val elastic = PairCheck.microBatch(spark, this, query, chunks, seed.toLong, more: _*)
    assert(!elastic.plan.contains("StockStateful"), elastic.plan)
    assert(elastic.batches.flatten.size > 20, "the query puts out next to nothing")
    elastic
  }

  private def version(n: Int) = "spark.sql.streaming.join.stateFormatVersion" -> n.toString

  (JoinCases.ranges ++ JoinCases.windows).zipWithIndex.foreach { case (query, i) =>
    // No query can be started with format 1 any more.
    (2 to 4).foreach { n =>
      test(s"${query.name}, state format $n, equals stock under motion") {
        val elastic = pair(query, i, version(n))
        assert(elastic.counts.last.exists(_.rowsRemoved > 0), "nothing was evicted")
      }
    }
  }

  JoinCases.ranges.zipWithIndex.foreach { case (query, i) =>
    test(s"${query.name} with half of both sides' rows on one key equals stock under motion") {
      // The sides are told apart by whether ids are even.
      val hot = chunks.map(_.map(row => if (row.id / 2 % 2 == 0) row.copy(key = "hot") else row))
      PairCheck.microBatch(spark, this, query, hot, seed = 30L + i)
    }
  }

  JoinCases.others.zipWithIndex.foreach { case (query, i) =>
    test(s"${query.name} equals stock under motion")(pair(query, i))
  }

  JoinCases.chains.zipWithIndex.foreach { case ((query, count), i) =>
    test(s"${query.name}: equals stock under motion, with regions: $count") {
      val elastic = pair(query, i)
      assert(regions(elastic.plan) == count, elastic.plan)
    }
  }

  for (n <- Seq(2, 3))
    test(s"inner join in update mode, state format $n, equals stock under motion") {
      pair(QueryCase("inner join", "update")(JoinCases.join("inner")(_)), n, version(n))
    }

  Seq("left_semi", "full_outer").zipWithIndex.foreach { case (how, i) =>
    test(s"$how join with queues of one kilobyte, whatever side is read first") {
      val query = QueryCase(how, "append")(JoinCases.join(how)(_))
      pair(query, i, "spark.sql.laneshift.queueBytes" -> "1k")
    }
  }
}
