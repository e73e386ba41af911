package org.apache.spark.sql.laneshift.workload

import java.time.{DateTimeException, OffsetDateTime}
import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** An option of the workload or replay source that cannot be used. The message names option, value, what is
  * allowed, the way out.
  */
class WorkloadOptionException(message: String) extends IllegalArgumentException(message)

/** Reads options by type and range. Every failure is a [[WorkloadOptionException]]: that there is an unknown one, at once.
  *
  * @param known every option, in the order of the documentation
  */
private[workload] final class OptionReader(
    options: CaseInsensitiveStringMap,
    val source: String,
    known: Seq[String]
) {
  rejectUnknown()

  def seed: Long = whole("seed", 0, Long.MinValue, Long.MaxValue)

  def partitions(most: Int): Int = whole("numPartitions", 2, 1, most).toInt

  /** Rows of the whole source. */
  def end(name: String): Long =
    wholeIfSet(name, 1, OptionReader.MaxRows, "without it the source never ends").getOrElse(
      WorkloadSpec.Endless
    )

  /** The most rows of a micro-batch, a multiple of `of`; without it a batch `takes` those that are due. */
  def batchLimit(
      name: String,
      of: Int = 1,
      takes: String = "the rows",
      most: Long = OptionReader.MaxRows
  ): Option[Long] = {
    val wayOut = s"without it a batch takes $takes that are due"
    val limit = wholeIfSet(name, of, most, wayOut)
    limit.filter(_ % of != 0).foreach(n => fail(name, n.toString, s"a multiple of $of", wayOut))
    limit
  }

  /** Whether a row waits until it is due; it does not if an option, `fixedBy`, fixes the rows of a batch. */
  def paced(fixedBy: Option[String] = None): Boolean = {
    val isScheduled = choice("pacing", "scheduled", Seq("scheduled", "none")) == "scheduled"
    if (isScheduled) fixedBy.foreach { option =>
      reject("pacing", s"$option fixes the rows of a batch whatever the clock says")
    }
    isScheduled && fixedBy.isEmpty
  }

  def text(name: String): Option[String] = Option(options.get(name)).map(_.trim)

  def whole(name: String, default: Long, min: Long, max: Long): Long =
    wholeIfSet(name, min, max, s"the default is $default").getOrElse(default)

  def wholeIfSet(name: String, min: Long, max: Long, wayOut: String): Option[Long] = text(name).map { value =>
    value.toLongOption
      .filter(n => n >= min && n <= max)
      .getOrElse(fail(name, value, s"a whole number from $min to $max", wayOut))
  }

  def number(name: String, default: Double, min: Double, max: Double): Double = text(name).fold(default) {
    value =>
      value.toDoubleOption
        .filter(x => x >= min && x <= max)
        .getOrElse(fail(
          name,
          value,
          s"a number from ${plain(min)} to ${plain(max)}",
          s"the default is ${plain(default)}"
        ))
  }

  def choice(name: String, default: String, allowed: Seq[String]): String =
    text(name).fold(default) { value =>
      val found = value.toLowerCase(Locale.ROOT)
      if (allowed.contains(found)) found
      else fail(name, value, allowed.mkString("one of ", ", ", ""), s"the default is $default")
    }

  /** A time span in microseconds. */
  def span(name: String, default: Long): Long = text(name).fold(default) { value =>
    TimeSpan.parse(value).getOrElse(fail(
      name,
      value,
      TimeSpan.Allowed,
      s"the default is ${TimeSpan.show(default)}"
    ))
  }

  /** When row 0 is due, in microseconds since 1970. */
  def startTime: Option[Long] = text("startTime").map { value =>
    val year = 31556952L
    val instant =
      try Some(OffsetDateTime.parse(value).toInstant)
      catch { case _: DateTimeException => None }
    instant
      .filter(t => t.getEpochSecond >= 0 && t.getEpochSecond < 1000 * year)
      .map(DateTimeUtils.instantToMicros)
      .getOrElse(
        fail(
          "startTime",
          value,
          "a time with its zone since 1970-01-01T00:00:00Z, such as 2026-01-31T12:00:00Z",
          "without it row 0 is due when the query first starts"
        )
      )
  }

  private def rejectUnknown(): Unit = {
    val lower = known.map(_.toLowerCase(Locale.ROOT)).toSet
    options.asCaseSensitiveMap.asScala.find { case (name, _) =>
      !lower(name.toLowerCase(Locale.ROOT))
    }.foreach {
      case (name, value) =>
        throw new WorkloadOptionException(
          s"$source has no option '$name' (set to '$value'). Its options are: " +
            s"${known.mkString(", ")}. Correct the name or leave the option out."
        )
    }
  }

  def fail(name: String, value: String, allowed: String, wayOut: String): Nothing =
    throw new WorkloadOptionException(
      s"Option '$name' of $source is '$value', but must be $allowed. " +
        s"Change it or leave it out; $wayOut."
    )

  /** The option is set but means nothing beside another one. */
  def reject(name: String, why: String): Unit = text(name).foreach { value =>
    throw new WorkloadOptionException(
      s"Option '$name' of $source is set ('$value') but $why. " +
        "Leave it out, or change the other option."
    )
  }

  private def plain(x: Double): String = if (x == x.toLong) x.toLong.toString else x.toString
}

private object OptionReader {
  private val MaxRows = 1000000000000L
}

/** Spans of time such as `500ms`, `10s`, `1.5m`, `1h`; in microseconds. */
private[workload] object TimeSpan {
  private val Form = """(\d+(?:\.\d+)?)\s*(us|ms|s|m|min|h)""".r
  private val Micros =
    Map("us" -> 1L, "ms" -> 1000L, "s" -> 1000000L, "m" -> 60000000L, "min" -> 60000000L, "h" -> 3600000000L)
  private val Longest = 366L * 24 * 3600 * 1000000

  val Allowed = "a time span from 1us to 8784h, such as 500ms, 10s, 1.5m or 1h"

  def parse(text: String): Option[Long] = text.trim.toLowerCase(Locale.ROOT) match {
    case Form(count, unit) =>
      Some(Math.round(count.toDouble * Micros(unit))).filter(t => t >= 1 && t <= Longest)
    case _ => None
  }

  def show(micros: Long): String =
    if (micros % 1000000 == 0) s"${micros / 1000000}s"
    else if (micros % 1000 == 0) s"${micros / 1000}ms" else s"${micros}us"
}
