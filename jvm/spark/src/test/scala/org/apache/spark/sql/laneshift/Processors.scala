package org.apache.spark.sql.laneshift

import java.time.Duration
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.{Encoder, Encoders}
import org.apache.spark.sql.laneshift.body.LaneContext
import org.apache.spark.sql.streaming._

/** One entry of a processor's list. */
final case class Entry(rows: Long, sum: Long)

/** The same after a change of its schema. */
final case class WiderEntry(rows: Long, sum: Long, newest: Option[Long])

/** Keeps a value, a list and a map of each key. Does not mind the order of rows that come together. */
class AllStates extends StatefulProcessor[String, TestInput, Told] {
  @transient private var total: ValueState[Entry] = _
  @transient private var each: ListState[Entry] = _
  @transient private var byNumber: MapState[Int, Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    total = getHandle.getValueState("total", Encoders.product[Entry], TTLConfig.NONE)
    each = getHandle.getListState("each", Encoders.product[Entry], TTLConfig.NONE)
    byNumber = getHandle.getMapState("byNumber", Encoders.scalaInt, Encoders.scalaLong, TTLConfig.NONE)
  }

  override def handleInputRows(
      key: String,
      rows: Iterator[TestInput],
      timers: TimerValues
  ): Iterator[Told] = {
    val all = rows.toSeq
    val before = if (total.exists()) total.get() else Entry(0, 0)
    val now = Entry(before.rows + all.size, before.sum + all.map(_.value).sum)
    total.update(now)
    each.appendValue(Entry(all.size.toLong, all.map(_.value).sum))
    all.foreach { r =>
      val bucket = (r.id % 5).toInt
      byNumber.updateValue(
        bucket,
        r.value + (if (byNumber.containsKey(bucket)) byNumber.getValue(bucket) else 0L)
      )
    }
    // Now and then everything of a kind goes.
    if (now.rows % 7 == 0) byNumber.clear()
    if (now.rows % 11 == 0) each.clear()
    if (now.rows % 13 == 0) byNumber.removeKey(1)
    if (now.rows > 60) total.clear()
    val list = each.get().map(e => e.rows * 31 + e.sum).sum
    val map = byNumber.iterator().map { case (k, v) => k + v }.sum
    Iterator(Told(key, s"$list $map ${byNumber.keys().size}", now.rows, now.sum))
  }
}

/** Forgets a key that has been quiet for a second, by event time or by processing time, and counts how often. */
class QuietAfter extends StatefulProcessor[(String, Int), TestInput, Told] {
  @transient private var total: ValueState[Entry] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    total = getHandle.getValueState("total", Encoders.product[Entry], TTLConfig.NONE)

  private def now(timers: TimerValues, mode: TimeMode): Long =
    if (mode == TimeMode.EventTime()) timers.getCurrentWatermarkInMs()
    else timers.getCurrentProcessingTimeInMs()

  protected def mode: TimeMode = TimeMode.EventTime()

  override def handleInputRows(
      key: (String, Int),
      rows: Iterator[TestInput],
      timers: TimerValues
  ): Iterator[Told] = {
    val all = rows.toSeq
    val before = if (total.exists()) total.get() else Entry(0, 0)
    val after = Entry(before.rows + all.size, before.sum + all.map(_.value).sum)
    total.update(after)
    getHandle.listTimers().toSeq.foreach(getHandle.deleteTimer)
    val from = if (mode == TimeMode.EventTime()) math.max(now(timers, mode), all.map(_.time.getTime).max)
    else now(timers, mode)
    getHandle.registerTimer(from + 1000L)
    if (after.rows % 3 == 0) getHandle.registerTimer(from + 1700L)
    Iterator(Told(s"${key._1}/${key._2}", s"now ${getHandle.listTimers().size}", after.rows, after.sum))
  }

  override def handleExpiredTimer(
      key: (String, Int),
      timers: TimerValues,
      expired: ExpiredTimerInfo
  ): Iterator[Told] = {
    val before = if (total.exists()) total.get() else Entry(0, 0)
    if (before.rows > 0) total.update(Entry(0, before.sum)) else total.clear()
    // A timer may set another.
    if (before.rows > 10) getHandle.registerTimer(expired.getExpiryTimeInMs() + 500L)
    Iterator(Told(s"${key._1}/${key._2}", "quiet", before.rows, before.sum))
  }
}

final class QuietAfterProcessing extends QuietAfter {
  override protected def mode: TimeMode = TimeMode.ProcessingTime()
}

/** All kinds of state with a time to live of one and a half seconds, and a key of several fields. */
class Fading extends StatefulProcessor[Place, TestInput, Told] {
  private def ttl = TTLConfig(Duration.ofMillis(1500))
  @transient private var newest: ValueState[Long] = _
  @transient private var each: ListState[Long] = _
  @transient private var byKey: MapState[String, Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    newest = getHandle.getValueState("newest", Encoders.scalaLong, ttl)
    each = getHandle.getListState("each", Encoders.scalaLong, ttl)
    byKey = getHandle.getMapState("byKey", Encoders.STRING, Encoders.scalaLong, ttl)
  }

  override def handleInputRows(
      place: Place,
      rows: Iterator[TestInput],
      timers: TimerValues
  ): Iterator[Told] = {
    val all = rows.toSeq.sortBy(_.id)
    // Places rest by turns, so that what they have may fade.
    val awake = all.filter(r => (r.id / 350 + place.zone) % 2 == 0)
    awake.foreach { r =>
      each.appendValue(r.value)
      byKey.updateValue(r.key, r.value)
    }
    awake.lastOption.foreach(r => newest.update(r.id))
    Iterator(
      Told(
        place.toString,
        s"${if (newest.exists()) newest.get() else -1} ${byKey.iterator().map(_._2).sum}",
        each.get().size.toLong,
        each.get().sum
      )
    )
  }
}

/** [[AllStates]] some releases later: a field more, a state less and a state more. */
final class AllStatesLater extends StatefulProcessor[String, TestInput, Told] {
  @transient private var total: ValueState[WiderEntry] = _
  @transient private var each: ListState[Entry] = _
  @transient private var places: MapState[String, Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    total = getHandle.getValueState("total", Encoders.product[WiderEntry], TTLConfig.NONE)
    each = getHandle.getListState("each", Encoders.product[Entry], TTLConfig.NONE)
    getHandle.deleteIfExists("byNumber")
    places = getHandle.getMapState("places", Encoders.STRING, Encoders.scalaLong, TTLConfig.NONE)
  }

  override def handleInputRows(
      key: String,
      rows: Iterator[TestInput],
      timers: TimerValues
  ): Iterator[Told] = {
    val all = rows.toSeq
    val before = if (total.exists()) total.get() else WiderEntry(0, 0, None)
    val newest = (before.newest ++ all.map(_.id)).max
    total.update(WiderEntry(before.rows + all.size, before.sum + all.map(_.value).sum, Some(newest)))
    each.appendList(Array(Entry(all.size.toLong, 1), Entry(newest, 2)))
    all.foreach(r => places.updateValue(r.place.city, newest))
    Iterator(
      Told(key, s"${each.get().map(_.rows).sum} ${places.values().sum}", before.rows, newest)
    )
  }
}

/** For Real-time Mode: each row is answered at once. With `timed` there is one timer a key, by the clock, and what fades is never
  * renewed and must be gone in the end.
  */
final class RowByRow(timed: Boolean = true) extends StatefulProcessor[String, TestInput, Told] {
  @transient private var total: ValueState[Entry] = _
  @transient private var each: ListState[Long] = _
  @transient private var byNumber: MapState[Int, Long] = _
  @transient private var fading: MapState[Long, Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    total = getHandle.getValueState("total", Encoders.product[Entry], TTLConfig.NONE)
    each = getHandle.getListState("each", Encoders.scalaLong, TTLConfig.NONE)
    byNumber = getHandle.getMapState("byNumber", Encoders.scalaInt, Encoders.scalaLong, TTLConfig.NONE)
    fading =
      getHandle.getMapState(
        "fading",
        Encoders.scalaLong,
        Encoders.scalaLong,
        TTLConfig(Duration.ofMillis(200))
      )
  }

  override def handleInputRows(key: String, rows: Iterator[TestInput], timers: TimerValues): Iterator[Told] =
    rows.map { r =>
      val before = if (total.exists()) total.get() else Entry(0, 0)
      if (timed && before.rows == 0) getHandle.registerTimer(timers.getCurrentProcessingTimeInMs() + 300L)
      val now = Entry(before.rows + 1, before.sum + r.value)
      total.update(now)
      if (now.rows % 9 == 0) each.clear()
      each.appendValue(r.id)
      val bucket = (r.id % 5).toInt
      byNumber.updateValue(
        bucket,
        (if (byNumber.containsKey(bucket)) byNumber.getValue(bucket) else 0L) * 3 + r.id
      )
      if (timed) fading.updateValue(r.id, r.value)
      Told(key, s"${each.get().sum} ${byNumber.values().sum}", now.rows, now.sum)
    }

  override def handleExpiredTimer(
      key: String,
      timers: TimerValues,
      expired: ExpiredTimerInfo
  ): Iterator[Told] = {
    // Long enough for shards to move while a lane fires what is due.
    Thread.sleep(5L)
    Iterator(Told(s"timer of $key", "fired", 0, 0))
  }
}

object RowByRow {
  private implicit val rowEncoder: Encoder[TestInput] = Encoders.product
  private implicit val keyEncoder: Encoder[String] = Encoders.STRING
  private implicit val toldEncoder: Encoder[Told] = Encoders.product

  val query: QueryCase = by("row by row", timed = true)

  /** Without anything that the clock decides. */
  val untimed: QueryCase = by("row by row, no timers", timed = false)

  private def by(name: String, timed: Boolean) = QueryCase(name, "update")(
    _.as[TestInput]
      .groupByKey((r: TestInput) => r.key)
      .transformWithState(new RowByRow(timed), TimeMode.ProcessingTime(), OutputMode.Update())
      .toDF()
  )

  def input: Seq[TestInput] = TestInput.rows(seed = 24, first = 0, count = 4000, keys = 60)
}

/** Sets a timer that is due at once, at a time of the key's own, and one for later; takes its time with rows of [[LateSum]]'s late lane, and to fire. */
final class LateTimers(still: Boolean = true) extends StatefulProcessor[String, TestInput, Told] {
  @transient private var rowCount: ValueState[Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    rowCount = getHandle.getValueState("rowCount", Encoders.scalaLong, TTLConfig.NONE)

  override def handleInputRows(
      key: String,
      rows: Iterator[TestInput],
      timers: TimerValues
  ): Iterator[Told] = {
    if (still) LateTimers.onItsLane(key)
    val all = rows.toSeq
    if (all.exists(_.value >= LateSum.Late)) Thread.sleep(15L)
    rowCount.update((if (rowCount.exists()) rowCount.get() else 0L) + all.size)
    getHandle.registerTimer(1L + key.drop(4).toLong % 16)
    getHandle.registerTimer(all.map(_.time.getTime).max + 500L)
    Iterator.empty
  }

  override def handleExpiredTimer(
      key: String,
      timers: TimerValues,
      expired: ExpiredTimerInfo
  ): Iterator[Told] = {
    if (still) LateTimers.onItsLane(key)
    Thread.sleep(3L)
    rowCount.update(rowCount.get() + 1L)
    Iterator(Told(key, s"at ${expired.getExpiryTimeInMs()}", rowCount.get(), 0L))
  }
}

object LateTimers {
  private val lanes = new ConcurrentHashMap[String, Int]

  /** Rows and timers of a key come on one lane, where no shard moves. */
  private def onItsLane(key: String): Unit = LaneContext.get.foreach { now =>
    val lane = lanes.computeIfAbsent(key, _ => now.lane.value)
    if (lane != now.lane.value)
      throw new IllegalStateException(s"$key is on lane ${now.lane.value}, and was on lane $lane before")
  }
}
