package org.apache.spark.sql.laneshift

import java.nio.file.{Files, Paths}

import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

import org.scalatest.Assertions._

import org.apache.spark.sql.{Dataset, Row}
import org.apache.spark.sql.functions._

import laneshift.testing.LimitedSuite

/** A batch of which foreachBatch takes some rows only: several lanes have gone on by then, and commit what stock Spark commits. */
class LookSuite extends LimitedSuite with ElasticSession {
  test("what is only looked at is not committed")(LookChecks.notCommitted(this))

  test("the last lane does not commit before all it has put out is taken")(
    LookChecks.committedWhenAsked(this)
  )

  for (mode <- Seq("complete", "update"))
    test(s"an aggregation in $mode mode, of which Spark commits before its first row, is")(
      LookChecks.committedFirst(this, mode)
    )

  test("what is looked at first is there as a whole") {
    LookChecks.same(this, LookChecks.distinct, partitions = "3") { rows =>
      if (rows.isEmpty) Nil else rows.take(2).toSeq.map(_ => Row("looked")) ++ rows.collect()
    }
  }
}

object LookChecks {
  private val chunks = (0 until 2).map(i => TestInput.rows(seed = 12, i * 300L, 300, keys = 40))
  val distinct: QueryCase = QueryCase("dropDuplicates", "append")(_.dropDuplicates("key", "number"))
  private def sums(mode: String) = QueryCase("sums", mode)(_.groupBy("key").agg(count("*"), sum("value")))

  /** Stock Spark refuses a batch whose stores have not committed. */
  def notCommitted(session: ElasticSession): Unit = {
    def look(options: Seq[(String, String)]) =
      Try(lived(session, distinct, chunks.take(1), "1", options)(_.take(1).toSeq))
    Seq(look(ElasticSession.Stock), look(ElasticSession.moving(12L))).foreach { side =>
      val causes = Causes(side.failed.get)
      assert(causes.exists(_.contains("STATE_STORE_COMMIT_VALIDATION_FAILED")), causes)
    }
  }

  /** The sink takes a row and waits until lanes have nothing left to do but that. */
  def committedWhenAsked(session: ElasticSession): Unit = session.withFolder { at =>
    session.withConf(ElasticSession.moving(12L) :+ ("spark.sql.shuffle.partitions" -> "1"): _*) {
      val state = at.resolve("state").toString
      def look(rows: Dataset[Row]): Seq[Row] = {
        rows.foreachPartition(slowly(state))
        assert(isCommitted(state))
        Nil
      }
      new MicroBatchLife(session.spark, distinct, at, take = look(_)).run(chunks.head)
      ()
    }
  }

  private def slowly(state: String): Iterator[Row] => Unit = { taken =>
    assert(taken.hasNext)
    taken.next()
    while (!lanes.forall(_.exists(_.getMethodName == "awaitWanted"))) Thread.onSpinWait()
    assert(!isCommitted(state), "the store has been committed")
    taken.foreach(_ => ())
  }

  /** Where the threads of lanes are. */
  private def lanes: Seq[Seq[StackTraceElement]] =
    Thread.getAllStackTraces.asScala.toSeq.collect { case (t, at) if t.getName.contains("lane ") => at.toSeq }

  private def isCommitted(state: String): Boolean =
    Using.resource(Files.walk(Paths.get(state)))(_.iterator.asScala.exists(_.getFileName.toString == "1.zip"))

  def committedFirst(session: ElasticSession, mode: String): Unit =
    same(session, sums(mode), partitions = "1")(rows => Seq(Row(rows.take(1).length)))

  /** The same of foreachBatch, and the same state. */
  def same(
      session: ElasticSession,
      query: QueryCase,
      partitions: String
  )(take: Dataset[Row] => Seq[Row]): Unit = {
    val (stockRows, stockState) = lived(session, query, chunks, partitions, ElasticSession.Stock)(take)
    val (rows, state) = lived(session, query, chunks, partitions, ElasticSession.moving(12L))(take)
    PairCheck.sameRows("rows", stockRows, rows)
    assert(stockState.nonEmpty && stockState == state, "state rows")
  }

  private def lived(
      session: ElasticSession,
      query: QueryCase,
      chunks: Seq[Seq[TestInput]],
      partitions: String,
      options: Seq[(String, String)]
  )(take: Dataset[Row] => Seq[Row]): (Seq[Row], Seq[String]) = session.withFolder { at =>
    session.withConf(options :+ ("spark.sql.shuffle.partitions" -> partitions): _*) {
      val life = new MicroBatchLife(session.spark, query, at, take = take)
      val states = chunks.map(life.run)
      (life.rows, states.last)
    }
  }
}
