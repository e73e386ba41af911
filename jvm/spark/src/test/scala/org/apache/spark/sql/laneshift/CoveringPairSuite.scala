package org.apache.spark.sql.laneshift

import laneshift.testing.{Covering, Deep, LimitedSuite}

/** Pairs with stock Spark: a query of each kind, with any two of the ways in which lanes, tasks and checkpoints may be in one of
  * them. The formats of a join's state are dealt over these. Most are the gate's; joins cost most, and some of theirs are deep, as are
  * more pairs in the suites of the kinds.
  */
class CoveringPairSuite extends LimitedSuite with ElasticSession {
  import CoveringPairSuite._

  Covering.pairs(queries.size +: ways.map(_.size))
    .zipWithIndex.foreach { case (one, i) =>
      val query = queries(one.head)
      val chosen = chosenOf(ways, one) ++ Option.when(isJoin(query))(formats(i % formats.size))
      test(named(query.name, chosen), Deep.Pairs.unless(isOfGate(query, chosen)): _*) {
        pair(query, PairCheck.seed(i.toLong), chosen.flatMap(_.options))
      }
    }

  Covering.pairs(RealTimePairSuite.cases.size +: Seq(lanes, tasks).map(_.size))
    .zipWithIndex.foreach { case (one, i) =>
      val query = RealTimePairSuite.cases(one.head)
      val chosen = chosenOf(Seq(lanes, tasks), one)
      test(named(s"Real-time Mode: ${query.name}", chosen)) {
        val options = chosen.flatMap(_.options)
        PairCheck.overTheNetwork(options) {
          PairCheck.realTime(spark, this, query, TestInput.realTime, PairCheck.seed(100L + i), options: _*)
        }
      }
    }

  private def pair(query: QueryCase, seed: Long, options: Seq[(String, String)]): Unit = {
    val elastic = PairCheck.overTheNetwork(options)(
      PairCheck.microBatch(spark, this, query, inputOf(query), seed, options: _*)
    )
    assert(!elastic.plan.contains("StockStateful"), elastic.plan)
    assert(elastic.batches.flatten.size > 20, "the query puts out next to nothing")
    PairCheck.timersFired(query, elastic)
    if (isJoin(query)) assert(elastic.counts.last.exists(_.rowsRemoved > 0), "nothing was evicted")
  }
}

private object CoveringPairSuite {

  /** A value of a factor: options without any are Spark's or the pair's own. */
  final case class Way(name: String, options: (String, String)*)

  private val usual = Way("")
  private val network = Way("over the network", "spark.sql.laneshift.motion.remoteLanes" -> "2")
  val lanes = Seq(usual, network)
  val tasks = Seq(usual, Way("tasks that change", "spark.sql.laneshift.motion.tasks" -> "true"))
  private val streaming = "spark.sql.streaming"
  val ways: Seq[Seq[Way]] = Seq(
    lanes,
    tasks,
    Seq(usual, Way("checkpoint ids", s"$streaming.stateStore.checkpointFormatVersion" -> "2")),
    Seq(usual, Way("changelogs", s"$streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "true"))
  )
  val formats: Seq[Way] =
    usual +: Seq("3", "4").map(n => Way(s"state format $n", s"$streaming.join.stateFormatVersion" -> n))

  /** A case's values of `ways`: its first number is a query. */
  def chosenOf(ways: Seq[Seq[Way]], one: Seq[Int]): Seq[Way] =
    ways.zip(one.tail).map { case (way, value) => way(value) }

  def named(query: String, chosen: Seq[Way]): String =
    (query +: chosen.map(_.name).filter(_.nonEmpty)).mkString(", ")

  def isJoin(query: QueryCase): Boolean = query.name.contains("join")

  /** A full outer join does what one to the left and one to the right do, flatMapGroupsWithState what mapGroupsWithState does; a join
    * beside other work has most that can go wrong where lanes are over the network, too.
    */
  def isOfGate(query: QueryCase, chosen: Seq[Way]): Boolean =
    if (JoinCases.ranges.contains(query)) !Seq("left_outer", "right_outer").exists(query.name.startsWith)
    else query.name != "mapGroupsWithState" && (!isJoin(query) || chosen.contains(network))

  val queries: Seq[QueryCase] = Seq(
    Seq(0, 1, 2, 8, 10).map(MicroBatchPairSuite.cases),
    SessionWindowPairSuite.cases.take(1),
    Seq(0, 2, 4).map(GroupStatePairSuite.cases),
    Seq(0, 2, 4).map(TransformWithStatePairSuite.cases),
    JoinCases.ranges,
    Seq(JoinCases.chains(1)._1, JoinCases.deduplicated, JoinCases.wide)
  ).flatten

  def inputOf(query: QueryCase): Seq[Seq[TestInput]] =
    if (TransformWithStatePairSuite.cases.contains(query)) TransformWithStatePairSuite.chunks
    else TestInput.chunks
}
