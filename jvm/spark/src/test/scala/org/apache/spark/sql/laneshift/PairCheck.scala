package org.apache.spark.sql.laneshift

import org.scalatest.Assertions._

import org.apache.spark.sql.Row
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.laneshift.plan.ElasticExec
import org.apache.spark.sql.laneshift.runtime.ElasticRuntime

import laneshift.testing.Spent

/** The one vocabulary of assertions about a pair of runs. */
object PairCheck {

  def sameRows(what: String, stock: Seq[Row], elastic: Seq[Row]): Unit = {
    val (a, b) = (counted(stock), counted(elastic))
    val missing = a.filter { case (row, n) => b.getOrElse(row, 0) < n }.keys.take(3)
    val extra = b.filter { case (row, n) => a.getOrElse(row, 0) < n }.keys.take(3)
    assert(a == b, s"$what: missing ${missing.mkString("; ")}, too many ${extra.mkString("; ")}")
  }

  private def counted(rows: Seq[Row]): Map[String, Int] =
    rows.groupBy(_.toString).map { case (row, same) => row -> same.size }

  /** The two sides of one query case. */
  def microBatch(
      spark: ClassicSession,
      session: ElasticSession,
      query: QueryCase,
      chunks: Seq[Seq[TestInput]],
      seed: Long,
      more: (String, String)*
  ): RunResult = {
    val elastic = microBatches(spark, session, query, chunks, ElasticSession.moving(seed), more: _*)
    assert(elastic.handoffs > 0, "nothing moved")
    elastic
  }

  /** The same, the elastic side with `options`. */
  def microBatches(
      spark: ClassicSession,
      session: ElasticSession,
      query: QueryCase,
      chunks: Seq[Seq[TestInput]],
      options: Seq[(String, String)],
      more: (String, String)*
  ): RunResult = bothSides(spark, session, query, chunks, options, more)._2

  /** The same under motion, and in each batch the rows of a key, which is the first field, in the same order. */
  def microBatchInOrder(
      spark: ClassicSession,
      session: ElasticSession,
      query: QueryCase,
      chunks: Seq[Seq[TestInput]],
      seed: Long,
      more: (String, String)*
  ): RunResult = {
    val (stock, elastic) = bothSides(spark, session, query, chunks, ElasticSession.moving(seed), more)
    stock.batches.zip(elastic.batches).zipWithIndex.foreach { case ((a, b), i) =>
      sameOrderPerKey(s"batch $i", a, b)
    }
    elastic
  }

  private def bothSides(
      spark: ClassicSession,
      session: ElasticSession,
      query: QueryCase,
      chunks: Seq[Seq[TestInput]],
      options: Seq[(String, String)],
      more: Seq[(String, String)]
  ): (RunResult, RunResult) = {
    def side(options: Seq[(String, String)]): RunResult =
      session.withFolder(at => session.withConf(options ++ more: _*)(MicroBatchRun(spark, query, chunks, at)))
    val stock = StockSides.of((query, chunks), more)(side(ElasticSession.Stock))
    val elastic = side(options)
    assert(!stock.plan.contains("Elastic ["), "the stock side is elastic")
    assert(elastic.plan.contains("Elastic ["), s"not elastic:\n${elastic.plan}")
    assert(stock.batches.size == elastic.batches.size, "number of batches")
    stock.batches.zip(elastic.batches).zipWithIndex.foreach { case ((a, b), i) =>
      sameRows(s"batch $i", a, b)
    }
    assert(stock.state == elastic.state, "state rows")
    assert(stock.counts == elastic.counts, "operator metrics")
    assert(stock.localities == elastic.localities, "where tasks ran, by batch")
    (stock, elastic)
  }

  /** Fails if timers and time to live did not do what a query has them for. */
  def timersFired(query: QueryCase, elastic: RunResult): Unit = {
    val counted = elastic.counts.flatten.flatMap(_.counted).groupMapReduce(_._1)(_._2)(_ + _)
    if (query.name.contains("timers"))
      Seq("numRegisteredTimers", "numDeletedTimers", "numExpiredTimers").foreach(name =>
        assert(counted(name) > 50, name)
      )
    if (query.name == "time to live") assert(counted("numValuesRemovedDueToTTLExpiry") > 20)
  }

  /** Runs `body`, in which lanes over the network get rows, if there are any, and no host is lost. */
  def overTheNetwork(options: Seq[(String, String)])(body: => RunResult): RunResult = {
    ElasticSession.shared // with which the runtime begins
    val traffic = ElasticRuntime.get.hostLanes.traffic
    val (before, lost) = (traffic.rowsSent.sum, traffic.lostHosts.sum)
    val result = body
    val remote = options.exists(_._1.endsWith("remoteLanes"))
    assert(remote == traffic.rowsSent.sum > before, "rows that went over the network")
    assert(traffic.lostHosts.sum == lost)
    result
  }

  /** A seed by which the first three batches of tasks that are drawn have other tasks than Spark's and each other's. */
  def seed(first: Long): Long = Iterator.from(0).map(first + 1000L * _).find { seed =>
    (0L to 2L).map(ElasticExec.drawnTasks(seed, 0L, _, 3)).toSet.size > 1
  }.get

  /** Rows of each key, which is the first field, in the same order. */
  def sameOrderPerKey(what: String, stock: Seq[Row], elastic: Seq[Row]): Unit = {
    val (a, b) = (stock.groupBy(_.getString(0)), elastic.groupBy(_.getString(0)))
    a.foreach { case (key, rows) =>
      val other = b.getOrElse(key, Nil)
      val at = rows.zipAll(other, null, null).indexWhere { case (x, y) => x != y }
      assert(at < 0, s"$what: key $key differs at its row $at: ${rows.lift(at)} and ${other.lift(at)}")
    }
  }

  /** Rows that come as the lanes take them: shards move every so many rows. */
  def realTime(
      spark: ClassicSession,
      session: ElasticSession,
      query: QueryCase,
      rows: Seq[TestInput],
      seed: Long,
      more: (String, String)*
  ): RunResult = {
    val elastic = realTimeSides(spark, session, query, rows, seed, Feed.AtOnce, Feed.Taken, more)
    assert(elastic.midBatchHandoffs > 0, "no handoff within a batch")
    elastic
  }

  /** Rows that come by the clock: timers of the motion and of the query come between them. */
  def realTimeByClock(
      spark: ClassicSession,
      session: ElasticSession,
      query: QueryCase,
      rows: Seq[TestInput],
      seed: Long,
      more: (String, String)*
  ): RunResult = {
    val elastic = realTimeSides(spark, session, query, rows, seed, Feed.ByClock, Feed.ByClock, more)
    assert(elastic.midBatchHandoffs > 100, s"only ${elastic.midBatchHandoffs} handoffs within batches")
    elastic
  }

  private def realTimeSides(
      spark: ClassicSession,
      session: ElasticSession,
      query: QueryCase,
      rows: Seq[TestInput],
      seed: Long,
      stockFeed: Feed,
      elasticFeed: Feed,
      more: Seq[(String, String)]
  ): RunResult = {
    def side(options: Seq[(String, String)], feed: Feed): RunResult =
      session.withFolder { at =>
        session.withConf(options ++ more: _*)(RealTimeRun(spark, query, rows, at, feed))
      }
    val stock = StockSides.of((query, rows, stockFeed), more)(side(ElasticSession.Stock, stockFeed))
    val elastic = side(
      if (elasticFeed == Feed.Taken) ElasticSession.byRows(seed) else ElasticSession.byClock(seed),
      elasticFeed
    )
    assert(!stock.plan.contains("Elastic ["), "the stock side is elastic")
    assert(elastic.plan.contains("Elastic ["), s"not elastic:\n${elastic.plan}")
    assert(elastic.plan.contains("handoff mid-batch"), s"handoffs wait for the batch's end:\n${elastic.plan}")
    sameRows(query.name, stock.batches.head, elastic.batches.head)
    sameOrderPerKey(query.name, stock.batches.head, elastic.batches.head)
    assert(stock.state == elastic.state, "state rows")
    assert(stock.counts == elastic.counts, "operator metrics")
    elastic
  }
}

/** What stock Spark made of a query and its rows is the same for every pair: it is run once. Options of laneshift are nothing to it,
  * and how checkpoints keep its state is nothing to its rows, state and counts.
  */
private object StockSides {
  private val nothingToIt =
    Seq(
      "spark.sql.laneshift.",
      "spark.sql.streaming.stateStore.checkpointFormatVersion",
      "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    )
  private val known = new scala.collection.mutable.HashMap[(Any, Seq[(String, String)]), RunResult]

  def of(what: Product, options: Seq[(String, String)])(run: => RunResult): RunResult = {
    val own = options.filterNot { case (key, _) => nothingToIt.exists(key.startsWith) }.sorted
    // The same query and the same rows: equality of what they hold would be dear, and functions have none.
    val same = what.productIterator.map {
      case feed: Feed => feed
      case other => Same(other.asInstanceOf[AnyRef])
    }.toSeq
    Spent.once("stock sides", (same, own))
    known.getOrElseUpdate((same, own), Spent.free(run))
  }

  private final case class Same(what: AnyRef) {
    override def hashCode: Int = System.identityHashCode(what)
    override def equals(other: Any): Boolean = other match {
      case Same(that) => that eq what
      case _ => false
    }
  }
}
