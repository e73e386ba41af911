package org.apache.spark.sql.laneshift

import org.apache.spark.sql.functions._

import laneshift.testing.{Deep, DeepSuite, LimitedSuite}

/** Session windows: stock and elastic under constant motion give the same rows per batch, state and counts. */
class SessionWindowPairSuite extends LimitedSuite with ElasticSession with DeepSuite {
  override def room: Deep = Deep.Pairs
  import SessionWindowPairSuite.cases
  private val chunks = TestInput.chunks

  cases.zipWithIndex.foreach { case (query, i) =>
    test(s"${query.name} equals stock under motion") {
      PairCheck.microBatch(spark, this, query, chunks, seed = i.toLong)
    }
  }

  test("sessions merged before the shuffle, too") {
    PairCheck.microBatch(
      spark,
      this,
      cases.head,
      chunks,
      seed = 9L,
      "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition" -> "true"
    )
  }

  test("sessions with checkpoint ids") {
    PairCheck.microBatch(
      spark,
      this,
      cases.head,
      chunks,
      seed = 10L,
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2"
    )
  }
}

/** Session windows. */
object SessionWindowPairSuite {
  private val session = session_window(col("time"), "400 milliseconds")
  private val gapByNumber =
    session_window(col("time"), expr("if(number % 2 = 0, '900 milliseconds', '200 milliseconds')"))

  val cases = Seq(
    QueryCase("sessions, append", "append")(
      _.withWatermark(
        "time",
        "2 seconds"
      ).groupBy(session, col("key")).agg(count("*"), sum("value"), max("id"))
    ),
    QueryCase("sessions, complete", "complete")(
      _.withWatermark("time", "2 seconds").groupBy(session, col("key")).agg(count("*"), sum("amount"))
    ),
    QueryCase("sessions with a gap of the row's, two keys", "append")(
      _.withWatermark("time", "2 seconds")
        .groupBy(col("maybe"), gapByNumber, col("number"))
        .agg(count("*"), sort_array(collect_set("key")))
    ),
    QueryCase("sessions by struct, projection above", "append")(
      _.withWatermark("time", "2 seconds")
        .groupBy(col("place"), session.as("s"))
        .agg(sum("value").as("v"))
        .select(
          col("place.city"),
          col("s.start"),
          (unix_millis(col("s.end")) - unix_millis(col("s.start"))) * col("v")
        )
        .where("city <> 'city-3'")
    )
  )
}
