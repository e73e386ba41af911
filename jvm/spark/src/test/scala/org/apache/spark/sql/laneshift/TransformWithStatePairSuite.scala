package org.apache.spark.sql.laneshift

import org.apache.spark.sql.{Dataset, Encoders}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming._

import laneshift.testing.{Deep, LimitedSuite}

/** transformWithState in Scala: stock and elastic under constant motion give the same rows, bytes of state and counts. */
class TransformWithStatePairSuite extends LimitedSuite with ElasticSession {
  import TransformWithStatePairSuite._
  import spark.implicits._

  private val format = "spark.sql.streaming.stateStore.checkpointFormatVersion"
  private val encoding = "spark.sql.streaming.stateStore.encodingFormat"

  private def pair(query: QueryCase, seed: Long, more: (String, String)*): Unit = {
    val elastic = PairCheck.microBatch(spark, this, query, chunks, seed, more: _*)
    assert(elastic.batches.map(_.size).sum > 100, "hardly any rows")
    assert(elastic.counts.flatten.exists(_.rowsTotal > 50), "hardly any state")
    PairCheck.timersFired(query, elastic)
  }

  cases.zipWithIndex.foreach { case (query, i) =>
    test(s"${query.name} equals stock under motion", Deep.Pairs)(pair(query, i.toLong))
    test(
      s"${query.name}, Avro and checkpoint ids",
      Deep.Pairs
    )(pair(query, i + 10L, encoding -> "avro", format -> "2"))
  }

  test("an initial state, elastic from the second batch on, equals stock under motion") {
    val query = QueryCase("initial state", "update") {
      val known = spark.range(30).map(i => s"key-$i" -> i.longValue).groupByKey(_._1).mapValues(_._2)
      _.as[TestInput]
        .groupByKey(_.key)
        .transformWithState(new Continued, TimeMode.None(), OutputMode.Update(), known)
        .toDF()
    }
    pair(query, 6L)
  }

  test("state that a function empties as it begins: its lanes do so once") {
    val query = QueryCase("of this batch", "update")(
      _.as[TestInput]
        .groupByKey(_.key)
        .transformWithState(new OfThisBatch, TimeMode.None(), OutputMode.Update())
        .toDF()
    )
    pair(query, 7L)
  }

  test("the schema evolves, by turns stock and elastic", Deep.Pairs) {
    withConf(encoding -> "avro") {
      def live(turns: Seq[Seq[(String, String)]]) = withFolder { at =>
        var later = false
        val query = QueryCase("evolving", "update")(rows =>
          byKey(if (later) new AllStatesLater else new AllStates)(rows.as[TestInput])
        )
        val life = new MicroBatchLife(spark, query, at)
        val states = turns.zip(chunks).zipWithIndex.map { case ((options, chunk), i) =>
          later = i >= 2
          withConf(options: _*)(life.run(chunk))
        }
        (life.rows, states)
      }
      val stock = live(Seq.fill(4)(ElasticSession.Stock))
      def moving(i: Int) = ElasticSession.moving(i.toLong)
      Seq(
        Seq.tabulate(4)(moving),
        Seq(moving(1), ElasticSession.Stock, moving(2), ElasticSession.Stock)
      ).foreach {
        turns =>
          val elastic = live(turns)
          PairCheck.sameRows("evolving", stock._1, elastic._1)
          stock._2.zip(elastic._2).zipWithIndex.foreach { case (a, i) =>
            assert(a._1 == a._2, s"state after turn $i")
          }
      }
    }
  }

  test("Real-time Mode, row by row, equals stock under motion") {
    PairCheck.realTime(spark, this, RowByRow.untimed, RowByRow.input.take(1500), seed = 5L)
  }

  test("Real-time Mode, row by row, with timers and time to live, equals stock under motion", Deep.Motion) {
    val rows = RowByRow.input
    val elastic = PairCheck.realTimeByClock(spark, this, RowByRow.query, rows, seed = 5L)
    assert(elastic.batches.head.count(_.getString(1) == "fired") == rows.map(_.key).distinct.size)
  }

  test("a key that is kept otherwise than it is shuffled stays stock, with the reason") {
    val text = QueryCase("a column's text", "update")(
      _.groupBy(col("key"))
        .as[String, TestInput]
        .transformWithState(new Counted[String], TimeMode.None(), OutputMode.Update())
        .toDF()
    )
    Seq(widened -> "its key is shuffled as", text -> "its key has a text that is no object's").foreach {
      case (query, why) =>
        val run = withFolder(at =>
          withConf(ElasticSession.moving(1L): _*)(MicroBatchRun(spark, query, chunks.take(1), at))
        )
        assert(run.plan.contains(s"not elastic: $why"), run.plan)
    }
  }

  test("beside an operator that stays stock, in one query") {
    val query = QueryCase("deduplicated, widened key", "append")(rows =>
      rows
        .dropDuplicates("id")
        .groupBy(col("number"))
        .as[Long, TestInput]
        .transformWithState(new Counted[Long], TimeMode.None(), OutputMode.Append())
        .toDF()
    )
    val elastic = PairCheck.microBatch(spark, this, query, chunks, seed = 4L)
    assert(elastic.plan.contains("not elastic: its key is shuffled as"), elastic.plan)
  }
}

/** Counts the rows of a key in this batch. */
final class OfThisBatch extends StatefulProcessor[String, TestInput, Told] {
  @transient private var total: ValueState[Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    getHandle.deleteIfExists("total")
    total = getHandle.getValueState("total", Encoders.scalaLong, TTLConfig.NONE)
  }

  override def handleInputRows(
      key: String,
      rows: Iterator[TestInput],
      timers: TimerValues
  ): Iterator[Told] = {
    val before = if (total.exists()) total.get() else 0L
    total.update(before + rows.size)
    Iterator(Told(key, "of this batch", before, total.get()))
  }
}

/** Counts the rows of a key. */
final class Counted[K] extends StatefulProcessor[K, TestInput, Told] {
  @transient private var total: ValueState[Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    total = getHandle.getValueState("total", Encoders.scalaLong, TTLConfig.NONE)

  override def handleInputRows(key: K, rows: Iterator[TestInput], timers: TimerValues): Iterator[Told] = {
    total.update((if (total.exists()) total.get() else 0L) + rows.size)
    Iterator(Told(key.toString, "rows", total.get(), 0))
  }
}

/** Counts the rows of a key from what is known of it when the query begins. */
final class Continued extends StatefulProcessorWithInitialState[String, TestInput, Told, Long] {
  @transient private var total: ValueState[Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    total = getHandle.getValueState("total", Encoders.scalaLong, TTLConfig.NONE)

  override def handleInitialState(key: String, known: Long, timers: TimerValues): Unit = total.update(known)

  override def handleInputRows(
      key: String,
      rows: Iterator[TestInput],
      timers: TimerValues
  ): Iterator[Told] = {
    total.update((if (total.exists()) total.get() else 0L) + rows.size)
    Iterator(Told(key, "rows", total.get(), 0))
  }
}

/** Processors in Scala. */
object TransformWithStatePairSuite {
  lazy val chunks = Seq(0, 350, 700, 1050).map(first => TestInput.rows(seed = 23, first.toLong, 350))

  private lazy val session = ElasticSession.shared
  import session.implicits._

  def byKey(processor: => StatefulProcessor[String, TestInput, Told])(rows: Dataset[TestInput]) =
    rows.groupByKey(_.key).transformWithState(processor, TimeMode.None(), OutputMode.Update()).toDF()

  /** Shuffled by an int, and kept by a long. */
  val widened = QueryCase("widened key", "update")(
    _.groupBy(col("number"))
      .as[Long, TestInput]
      .transformWithState(new Counted[Long], TimeMode.None(), OutputMode.Update())
      .toDF()
  )

  private val states =
    QueryCase("value, list and map", "update")(rows => byKey(new AllStates)(rows.as[TestInput]))

  val cases = Seq(
    states,
    QueryCase("value, list and map, append, work above", "append")(
      _.as[TestInput]
        .groupByKey(_.key)
        .transformWithState(new AllStates, TimeMode.None(), OutputMode.Append())
        .map(t => t.copy(sum = t.sum * 3))
        .toDF()
        .where("rows % 2 = 0")
    ),
    QueryCase("event-time timers", "append")(
      _.withWatermark("time", "1 second")
        .as[TestInput]
        .groupByKey(r => (r.key, r.number))
        .transformWithState(new QuietAfter, TimeMode.EventTime(), OutputMode.Append())
        .toDF()
    ),
    QueryCase("processing-time timers", "update", stepped = true)(
      _.as[TestInput]
        .groupByKey(r => (r.key, r.number))
        .transformWithState(new QuietAfterProcessing, TimeMode.ProcessingTime(), OutputMode.Update())
        .toDF()
    ),
    QueryCase("time to live", "update", stepped = true)(
      _.as[TestInput]
        .groupByKey(_.place)
        .transformWithState(new Fading, TimeMode.ProcessingTime(), OutputMode.Update())
        .toDF()
    )
  )
}
