package org.apache.spark.sql.laneshift

import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.plan.ElasticPlanRule

import laneshift.testing.LimitedSuite

/** A plan rule that does not find what it needs of Spark costs no query: it stays stock, for good, and says why. */
class PlanningFailureSuite extends LimitedSuite with ElasticSession {

  private val query = QueryCase("aggregation", "update")(_.groupBy("key").agg(count("*"), sum("value")))
  private val chunks = Seq.tabulate(4)(i => TestInput.rows(seed = 31, i * 300L, 300))

  private def failing[T](error: Throwable, from: Int, until: Int)(body: => T): T = {
    var planned = 0
    ElasticPlanRule.planning = () => {
      planned += 1
      if (planned > from && planned <= until) throw error
    }
    try body
    finally ElasticPlanRule.planning = () => ()
  }

  private def run(options: Seq[(String, String)]): RunResult =
    withFolder(at => withConf(options: _*)(MicroBatchRun(spark, query, chunks, at)))

  private lazy val stock = run(ElasticSession.Stock)

  for (
    (name, error) <- Seq(
      "an exception" -> new IllegalStateException("an operator that nobody knows"),
      "a method that is not there" -> new NoSuchMethodError("StateStoreWriter.renamed")
    );
    (when, from, until) <- Seq(
      ("every batch", 0, Int.MaxValue),
      // Its executors keep the stores that they have opened: a run is not elastic again.
      ("the first batch", 0, 1),
      ("a batch after elastic ones", 2, 3)
    )
  ) test(s"planning $when throws $name: the query goes on as stock Spark") {
    val elastic = failing(error, from, until)(run(ElasticSession.moving(31L)))
    assert(
      elastic.plan.contains("not elastic: planning it failed") && elastic.plan.contains(error.getMessage)
    )
    assert(!elastic.plan.contains("Elastic ["))
    assert(elastic.batches.size == stock.batches.size)
    stock.batches.zip(elastic.batches).foreach { case (a, b) => PairCheck.sameRows(query.name, a, b) }
    assert(elastic.state == stock.state)
  }

  test("options that do not go together are still the user's to mend") {
    val error = intercept[Exception](
      run(Seq("spark.sql.laneshift.lanes" -> "7", "spark.sql.laneshift.maxLanes" -> "2"))
    )
    assert(Causes(error).exists(_.contains("spark.sql.laneshift.maxLanes allows 1 to 2")))
  }
}
