package org.apache.spark.sql.laneshift.workload

import java.util.concurrent.ConcurrentHashMap

import scala.collection.immutable.SortedMap
import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.HdrHistogram.{Histogram, SingleWriterRecorder}
import org.json4s.{JArray, JInt, JNothing, JValue}
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods

/** What the measuring sinks of this JVM found, by the sink's option `name`. */
object MeasureRegistry {
  private val meters = new ConcurrentHashMap[String, Meter]

  private[workload] def of(name: String): Meter = meters.computeIfAbsent(name, _ => new Meter)

  /** Forgets what was measured so far: a warm-up, or the part of a run that has been read. */
  def begin(name: String): Unit = of(name).begin()

  /** What was measured since `begin`, as JSON: `seconds`, `rows`, `slots` (pairs of a time in ms and the rows of the 100 ms
    * from then on), `opened_ms` (when sink tasks began), and `latency_us` of `all` rows and of `steady` ones.
    */
  def read(name: String): String = of(name).read()

  /** As `read`, and then `begin`, with no row in between: each row is in one answer. `latency_us` of `all` rows has
    * `counts`, too: pairs of a latency, to a percent, and the rows that had it. Who adds those of several answers up has the
    * percentiles of all their rows.
    */
  def take(name: String): String = of(name).take()

  /** The lines kept since the last call, oldest first: for each the time at which it came (microseconds since 1970), a
    * comma, and the text of `lineColumn`. A task's lines keep their order.
    */
  def lines(name: String): String = of(name).lines()

  def drop(name: String): Unit = meters.remove(name)
}

/** One sink task's records: written by its thread alone. Used again by a later task. */
private[workload] final class MeasureTape(meter: Meter) {
  private val all = new SingleWriterRecorder(Meter.MostMicros, 3)
  private val steady = new SingleWriterRecorder(Meter.MostMicros, 3)
  private var slot = -1L
  private var rows = 0L

  def row(now: Long): Unit = {
    val current = now / Meter.SlotMicros
    if (current != slot) {
      flush()
      slot = current
    }
    rows += 1
  }

  def latency(micros: Long, isSteady: Boolean): Unit = {
    val value = math.min(math.max(micros, 0L), Meter.MostMicros)
    all.recordValue(value)
    if (isSteady) steady.recordValue(value)
  }

  private def flush(): Unit = {
    if (rows > 0) meter.count(slot, rows)
    rows = 0
  }

  def close(): Unit = {
    flush()
    meter.giveBack(this)
  }

  /** For readers, one at a time: the latencies since the last call. */
  def drainTo(all: Histogram, steady: Histogram): Unit = {
    all.add(this.all.getIntervalHistogram)
    steady.add(this.steady.getIntervalHistogram)
  }
}

private[workload] object Meter {
  val SlotMicros = 100000L
  val MostMicros = 600L * 1000 * 1000
  val MostLines = 2000000
}

/** All tasks' records of one sink. */
private[workload] final class Meter {
  private val tapes = mutable.ArrayBuffer.empty[MeasureTape]
  private val free = mutable.ArrayBuffer.empty[MeasureTape]
  private val slots = mutable.HashMap.empty[Long, Long]
  private val opened = mutable.ArrayBuffer.empty[Long]
  private val all = new Histogram(Meter.MostMicros, 3)
  private val steady = new Histogram(Meter.MostMicros, 3)
  private val kept = mutable.ArrayBuffer.empty[String]
  private var begun = System.nanoTime()

  def newTape(now: Long): MeasureTape = synchronized {
    opened += now / 1000
    if (free.nonEmpty) free.remove(free.size - 1)
    else {
      tapes += new MeasureTape(this)
      tapes.last
    }
  }

  def giveBack(tape: MeasureTape): Unit = synchronized {
    if (!free.contains(tape)) free += tape
  }

  def count(slot: Long, rows: Long): Unit = synchronized {
    slots(slot) = slots.getOrElse(slot, 0L) + rows
  }

  def keep(now: Long, line: String): Unit = kept.synchronized {
    if (kept.size >= Meter.MostLines) throw new IllegalStateException(
      s"laneshift-measure keeps ${kept.size} lines of lineColumn, expected fewer than ${Meter.MostLines}: " +
        "call MeasureRegistry.lines(name) now and then, which takes them, or leave lineColumn out."
    )
    kept += s"$now,$line"
  }

  def lines(): String = {
    val taken = kept.synchronized {
      val all = kept.toArray
      kept.clear()
      all
    }
    taken.mkString("\n")
  }

  def begin(): Unit = synchronized {
    drain()
    forget()
  }

  private def forget(): Unit = {
    all.reset()
    steady.reset()
    slots.clear()
    opened.clear()
    begun = System.nanoTime()
  }

  private def drain(): Unit = tapes.foreach(_.drainTo(all, steady))

  def read(): String = found(_ => JNothing)

  private def found(more: Histogram => JValue): String = synchronized {
    drain()
    val rows = slots.to(SortedMap).toSeq.map { case (slot, n) => List(slot * Meter.SlotMicros / 1000, n) }
    JsonMethods.compact(
      ("seconds" -> (System.nanoTime() - begun) / 1e9) ~
        ("rows" -> slots.values.sum) ~
        ("slots" -> rows) ~
        ("opened_ms" -> opened.toSeq) ~
        ("latency_us" -> ("all" -> (summary(all) ~ ("counts" -> more(all)))) ~ ("steady" -> summary(steady)))
    )
  }

  def take(): String = synchronized {
    val taken = found(counts)
    forget()
    taken
  }

  private def counts(of: Histogram): JValue = {
    val coarse = new Histogram(Meter.MostMicros, 2)
    coarse.add(of)
    val pairs =
      coarse.recordedValues.asScala.map(at => List(at.getValueIteratedTo, at.getCountAtValueIteratedTo))
    JArray(pairs.map(pair => JArray(pair.map(JInt(_)))).toList)
  }

  private def summary(of: Histogram) =
    ("count" -> of.getTotalCount) ~
      ("mean" -> of.getMean) ~
      ("p50" -> of.getValueAtPercentile(50)) ~
      ("p90" -> of.getValueAtPercentile(90)) ~
      ("p99" -> of.getValueAtPercentile(99)) ~
      ("p999" -> of.getValueAtPercentile(99.9)) ~
      ("max" -> of.getMaxValue)
}
