package org.apache.spark.sql.laneshift

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode}

import laneshift.testing.{Deep, LimitedSuite}

/** What the user functions below keep of a group. */
final case class Tally(rows: Long, sum: Long, newest: Long)

/** What they put out. */
final case class Told(key: String, what: String, rows: Long, sum: Long)

/** User functions for groups; none of them minds the order of the rows. */
object GroupFunctions {
  private def add(state: GroupState[Tally], rows: Iterator[TestInput]): Tally =
    rows.foldLeft(state.getOption.getOrElse(Tally(0, 0, 0))) { (t, r) =>
      Tally(t.rows + 1, t.sum + r.value, math.max(t.newest, r.time.getTime))
    }

  def running(key: String, rows: Iterator[TestInput], state: GroupState[Tally]): Told = {
    val tally = add(state, rows)
    state.update(tally)
    Told(key, "now", tally.rows, tally.sum)
  }

  /** Forgets a group at every fifth row and more. */
  def forgetful(place: Place, rows: Iterator[TestInput], state: GroupState[Tally]): Iterator[Told] = {
    val tally = add(state, rows)
    if (tally.rows >= 5) {
      state.remove()
      Iterator.tabulate(2)(i => Told(place.city, s"${place.zone}/$i", tally.rows, tally.sum))
    } else {
      state.update(tally)
      Iterator.empty
    }
  }

  /** Tells of a group when nothing has come of it for a second of event time. */
  def untilQuiet(key: String, rows: Iterator[TestInput], state: GroupState[Tally]): Iterator[Told] =
    if (state.hasTimedOut) {
      val tally = state.get
      state.remove()
      Iterator.single(Told(key, "quiet", tally.rows, tally.sum))
    } else {
      val tally = add(state, rows)
      state.update(tally)
      state.setTimeoutTimestamp(math.max(tally.newest, state.getCurrentWatermarkMs()) + 1000L)
      Iterator.empty
    }

  /** Tells of each change, and when nothing has come for one and a half seconds; then stays for as long again. */
  def untilIdle(key: (String, Int), rows: Iterator[TestInput], state: GroupState[Tally]): Iterator[Told] = {
    val name = s"${key._1}/${key._2}"
    if (state.hasTimedOut) {
      val tally = state.get
      if (tally.newest < 0) state.remove()
      else {
        state.update(tally.copy(newest = -1L))
        state.setTimeoutDuration("1500 milliseconds")
      }
      Iterator.single(Told(name, "idle", tally.rows, tally.sum))
    } else {
      val tally = add(state, rows)
      state.update(tally)
      state.setTimeoutDuration(1500L)
      Iterator.single(Told(name, "now", tally.rows, tally.sum))
    }
  }
}

/** flatMapGroupsWithState and mapGroupsWithState: stock and elastic under constant motion. */
class GroupStatePairSuite extends LimitedSuite with ElasticSession {
  import GroupStatePairSuite.cases

  private val chunks = TestInput.chunks

  cases.zipWithIndex.foreach { case (query, i) =>
    test(s"${query.name} equals stock under motion", Deep.Pairs) {
      val elastic = PairCheck.microBatch(spark, this, query, chunks, seed = i.toLong)
      assert(elastic.batches.map(_.size).sum > 100, "hardly any rows")
    }
  }

  test("flatMapGroupsWithState with an initial state, elastic from the second batch on, equals stock") {
    val elastic = PairCheck.microBatch(spark, this, GroupStatePairSuite.continued, chunks, seed = 6L)
    assert(elastic.batches.map(_.size).sum > 100, "hardly any rows")
  }

  test(
    "an initial state above an elastic operator: the stores of both are one provider's from the first batch on",
    Deep.Pairs
  ) {
    val elastic = PairCheck.microBatch(spark, this, GroupStatePairSuite.continuedAbove, chunks, seed = 7L)
    assert(elastic.batches.map(_.size).sum > 100, "hardly any rows")
    assert(!elastic.plan.contains("StockStateful"), elastic.plan)
  }
}

/** Operators with user functions over groups. */
object GroupStatePairSuite {
  private lazy val session = ElasticSession.shared
  import session.implicits._

  val cases = Seq(
    QueryCase("mapGroupsWithState", "update")(
      _.as[TestInput].groupByKey(_.key).mapGroupsWithState(GroupFunctions.running _).toDF()
    ),
    QueryCase("flatMapGroupsWithState, append, no time-out, work above", "append")(
      _.as[TestInput]
        .groupByKey(_.place)
        .flatMapGroupsWithState(OutputMode.Append, GroupStateTimeout.NoTimeout)(GroupFunctions.forgetful _)
        .map(t => t.copy(sum = t.sum * 3))
        .filter((t: Told) => t.sum % 2 == 0)
        .toDF()
        .withColumn("twice", col("rows") * 2)
    ),
    QueryCase("flatMapGroupsWithState, append, event-time time-out", "append")(
      _.withWatermark("time", "1 second")
        .as[TestInput]
        .groupByKey(_.key)
        .flatMapGroupsWithState(
          OutputMode.Append,
          GroupStateTimeout.EventTimeTimeout
        )(GroupFunctions.untilQuiet _)
        .toDF()
    ),
    QueryCase("flatMapGroupsWithState, update, event-time time-out", "update")(
      _.withWatermark("time", "1 second")
        .as[TestInput]
        .groupByKey(_.key)
        .flatMapGroupsWithState(
          OutputMode.Update,
          GroupStateTimeout.EventTimeTimeout
        )(GroupFunctions.untilQuiet _)
        .toDF()
    ),
    QueryCase("flatMapGroupsWithState, update, processing-time time-out", "update", stepped = true)(
      _.as[TestInput]
        .groupByKey(r => (r.key, r.number))
        .flatMapGroupsWithState(OutputMode.Update, GroupStateTimeout.ProcessingTimeTimeout)(
          GroupFunctions.untilIdle _
        )
        .toDF()
    )
  )

  /** Spark loads the initial state in the first batch, which stays stock. */
  val continued = QueryCase("flatMapGroupsWithState, initial state", "update") {
    val known = session.range(30).map(i => s"key-$i" -> Tally(i, i * 10, 0L)).groupByKey(_._1).mapValues(_._2)
    _.as[TestInput]
      .groupByKey(_.key)
      .flatMapGroupsWithState(OutputMode.Update, GroupStateTimeout.NoTimeout, known)(
        (key: String, rows: Iterator[TestInput], state: GroupState[Tally]) =>
          Iterator(GroupFunctions.running(key, rows, state))
      )
      .toDF()
  }

  /** The same above a deduplication, which is elastic at once. */
  val continuedAbove = QueryCase("initial state above dropDuplicates", "append") {
    val known = session.range(30).map(i => s"key-$i" -> Tally(i, i * 10, 0L)).groupByKey(_._1).mapValues(_._2)
    _.dropDuplicates("id")
      .as[TestInput]
      .groupByKey(_.key)
      .flatMapGroupsWithState(OutputMode.Append, GroupStateTimeout.NoTimeout, known)(
        (key: String, rows: Iterator[TestInput], state: GroupState[Tally]) =>
          Iterator(GroupFunctions.running(key, rows, state))
      )
      .toDF()
  }
}
