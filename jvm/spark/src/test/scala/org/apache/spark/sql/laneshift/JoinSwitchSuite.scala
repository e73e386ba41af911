package org.apache.spark.sql.laneshift

import org.apache.spark.sql.Row

import laneshift.testing.{Deep, LimitedSuite}

/** One checkpoint of a join, restarted again and again, by turns under stock Spark and elastic under motion: rows and state as
  * in a life with stock Spark only.
  */
class JoinSwitchSuite extends LimitedSuite with ElasticSession {
  private val format = "spark.sql.streaming.join.stateFormatVersion"
  private val checkpoints = "spark.sql.streaming.stateStore.checkpointFormatVersion"
  private val chunks = (0 until 3).map(i => TestInput.rows(seed = 12, i * 350L, 350))

  private def live(query: QueryCase, turns: Seq[Seq[(String, String)]]): (Seq[Row], Seq[Seq[String]]) =
    withFolder { at =>
      val life = new MicroBatchLife(spark, query, at)
      val states = turns.zip(chunks).map { case (options, chunk) => withConf(options: _*)(life.run(chunk)) }
      (life.rows, states)
    }

  private def byTurns(elasticFirst: Boolean, more: (String, String)*): Seq[Seq[(String, String)]] =
    Seq.tabulate(3) { i =>
      if ((i % 2 == 0) == elasticFirst) ElasticSession.moving(i.toLong) ++ more else ElasticSession.Stock
    }

  private def join(how: String) = QueryCase(how, "append")(JoinCases.join(how)(_))
  private def chain(start: String) =
    JoinCases.chains.map(_._1).find(_.name.startsWith(start)).getOrElse(fail(s"no case $start"))

  private val cases = Seq(
    (join("left_outer"), 2, 2, true),
    (join("full_outer"), 3, 1, false),
    (join("left_semi"), 4, 2, true),
    (chain("aggregations below a join, same key"), 2, 2, false),
    (chain("deduplication below"), 2, 1, true)
  )

  cases.foreach { case (query, state, checkpoint, elasticFirst) =>
    val first = if (elasticFirst) "elastic" else "stock"
    test(
      s"${query.name}, state format $state, checkpoint format $checkpoint, $first first",
      Deep.Pairs.unless(state == 3): _*
    ) {
      withConf(format -> state.toString, checkpoints -> checkpoint.toString) {
        same(query, byTurns(elasticFirst))
      }
    }
  }

  test("left_outer, lanes over the network and stock, by turns", Deep.Remote) {
    same(join("left_outer"), byTurns(elasticFirst = true, "spark.sql.laneshift.motion.remoteLanes" -> "2"))
  }

  private def same(query: QueryCase, turns: Seq[Seq[(String, String)]]): Unit = {
    val (stockRows, stockStates) = live(query, Seq.fill(3)(ElasticSession.Stock))
    val (rows, states) = live(query, turns)
    PairCheck.sameRows(query.name, stockRows, rows)
    stockStates.zip(states).zipWithIndex.foreach { case ((a, b), i) =>
      assert(a == b, s"state after turn $i")
    }
  }
}
