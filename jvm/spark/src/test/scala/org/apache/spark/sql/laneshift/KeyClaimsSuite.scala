package org.apache.spark.sql.laneshift

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.driver.{DriverState, Run, RunName}
import org.apache.spark.sql.laneshift.proto.{ControlMessages => pb}
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode, StreamingQuery}

import laneshift.testing.{Deep, LimitedSuite}

/** A planner of key distribution decides for an operator: shards move as it says, and work is apart as it says. */
class KeyClaimsSuite extends LimitedSuite with ElasticSession {
  import KeyClaimsSuite._

  private val lanes = "spark.sql.laneshift.lanes" -> "4"

  /** The source's own stage is row-wise, too. */
  private def isApart(running: StreamingQuery): Boolean =
    "Elastic \\[(row-wise|shards)".r.findAllMatchIn(MicroBatchRun.planOf(running)).map(_.group(1)).toSeq
      .containsSlice(Seq("row-wise", "shards"))

  private def claim(
      running: StreamingQuery,
      apart: Option[Boolean],
      seconds: Double,
      operator: Long = 0L
  ): pb.Answer = KeyClaimsSuite.claim(running.id.toString, apart, seconds, operator)

  /** A batch of each step's rows, and what is said behind it; whether each was apart. */
  private def apart(options: (String, String)*)(steps: (StreamingQuery => Unit)*): Seq[Boolean] =
    withConf(lanes +: options: _*)(withFolder { at =>
      val life = new MicroBatchLife(spark, byKey, at)
      val running = life.start()
      val found =
        try steps.zipWithIndex.map { case (step, i) =>
            life.add(rows(i))
            life.await(running)
            val now = isApart(running)
            step(running)
            now
          }
        finally running.stop()
      assert(life.rows.map(_.getLong(1)).sorted == steps.indices.flatMap(rows(_).map(_.id)).sorted)
      Leftovers.check()
      found
    })

  test("what a planner says of work above a state holds from the next batch on, until it is over") {
    val found = apart()(
      running => {
        assert(Asked.above().contains(pb.Operator.RowWork.WITH_STATE))
        assert(claim(running, Some(true), 600).hasReply)
      },
      running => assert(Asked.above().contains(pb.Operator.RowWork.APART)),
      running => claim(running, Some(false), 600),
      running => claim(running, Some(true), 0.000001),
      _ => ()
    )
    assert(found == Seq(false, true, true, false, false))
  }

  test("an option that is not 'auto' is above it") {
    val kept = apart("spark.sql.laneshift.hotKeys.spread" -> "false")(
      running => assert(claim(running, Some(true), 600).getFailure.getCondition == "LANESHIFT_NOTHING_ABOVE"),
      _ => ()
    )
    assert(kept == Seq(false, false))
    assert(apart("spark.sql.laneshift.hotKeys.spread" -> "true")(claim(_, Some(false), 600), _ => ()) == Seq(
      true,
      true
    ))
  }

  test("what cannot be is refused, and nothing changes") {
    def refused(answer: pb.Answer, condition: String, words: String*): Unit = {
      assert(answer.getFailure.getCondition == condition)
      words.foreach(word => assert(answer.getFailure.getMessage.contains(word)))
    }
    val found = apart("spark.sql.laneshift.hotKeys.spread" -> "true")(
      running => {
        refused(claim(running, Some(true), 9, operator = 1000L), "LANESHIFT_NO_KEYS", "they go to any lane")
        refused(claim(running, Some(true), -1), "LANESHIFT_OUT_OF_RANGE", "seconds", "-1")
        refused(claim(running, Some(true), 9, operator = 7L), "LANESHIFT_NO_SUCH_OPERATOR")
      },
      _ => ()
    )
    assert(found == Seq(true, true))
    withConf(lanes)(withFolder { at =>
      val cheap = QueryCase("cheap", "update")(_.groupBy("key").agg(sum("value").as("s")))
      val life = new MicroBatchLife(spark, cheap, at)
      val running = life.start()
      try {
        life.add(rows(0))
        life.await(running)
        assert(Asked.above().contains(pb.Operator.RowWork.NONE))
        refused(claim(running, Some(true), 9), "LANESHIFT_NOTHING_ABOVE", "more fields in the key")
        assert(claim(running, None, 9).hasReply)
      } finally running.stop()
    })
  }

  test("a claim lapses, and ends with its run") {
    var now = 1000L
    val run = new Run(RunName("q", "run", None), nowNs = () => now)
    assert(run.claimedApart(3L).isEmpty)
    run.claimKeys(3L, Some(true), 2.0)
    assert(run.claimedApart(3L).contains(true) && run.claimedApart(4L).isEmpty)
    now += 1999999999L
    assert(run.claimedApart(3L).contains(true))
    now += 2L
    assert(run.claimedApart(3L).isEmpty)
    run.claimKeys(3L, None, 2.0)
    assert(run.claimedApart(3L).isEmpty)
    run.claimKeys(3L, Some(true), 2.0)
    run.claimKeys(3L, Some(true), 0.0)
    assert(run.claimedApart(3L).isEmpty)
  }

  test("without a planner the balancer moves shards, which it does not while one decides", Deep.Policies) {
    assert(balanced(this, claimed = false) > 0)
    assert(balanced(this, claimed = true) == 0)
  }
}

object KeyClaimsSuite {
  import org.scalatest.Assertions._

  private def each(
      key: String,
      rows: Iterator[TestInput],
      seen: GroupState[Long]
  ): Iterator[(String, Long)] = {
    seen.update(seen.getOption.getOrElse(0L) + 1L)
    rows.map(row => (key, row.id))
  }

  private lazy val costly = udf((id: Long) => id + 1)

  /** Each row gives an output, and rows are shuffled as they are. */
  private val byKey = QueryCase("by key", "append") { (input: DataFrame) =>
    import input.sparkSession.implicits._
    input.as[TestInput].groupByKey(_.key)
      .flatMapGroupsWithState[Long, (String, Long)](OutputMode.Append, GroupStateTimeout.NoTimeout)(each)
      .toDF("key", "id")
      .withColumn("f", costly(col("id")))
  }

  private def rows(batch: Int): Seq[TestInput] = TestInput.rows(seed = 51, batch * 10000L, 600, keys = 40)

  private def claim(
      query: String,
      apart: Option[Boolean],
      seconds: Double,
      operator: Long = 0L
  ): pb.Answer = {
    val request = pb.ClaimKeysRequest.newBuilder().setQuery(query).setOperator(operator).setSeconds(seconds)
    apart.foreach(request.setApart)
    Asked("ClaimKeys", request.build())
  }

  /** Handoffs of the balancer, once the loads of uneven keys are known; the planner's own is carried out. */
  private[laneshift] def balanced(session: ElasticSession, claimed: Boolean): Int =
    session.withConf(
      "spark.sql.laneshift.lanes" -> "4",
      "spark.sql.laneshift.shardsPerPartition" -> "16"
    )(session.withFolder { at =>
      val life = new MicroBatchLife(session.spark, byKey, at)
      val running = life.start()
      val id = running.id.toString
      try {
        (0 until 4).foreach { i =>
          if (i > 0 && claimed) claim(id, None, 600)
          if (i == 2) Asked.move(id, 0, 5, 3)
          life.add(rows(i))
          life.await(running)
        }
        val moves =
          DriverState.get.get.executors.handoffs(100000, Some(Set(running.runId.toString))).map(_._2)
        if (claimed) assert(moves.map(m => (m.shard, m.to, m.reason)) == Seq((5, 3, "user")), moves)
        moves.count(_.reason == "balance")
      } finally running.stop()
    })
}
