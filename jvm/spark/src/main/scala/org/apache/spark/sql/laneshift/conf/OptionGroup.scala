package org.apache.spark.sql.laneshift.conf

import java.util.Locale
import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.apache.spark.internal.config.{ConfigBuilder, ConfigEntry, OptionalConfigEntry, TypedConfigBuilder}
import org.apache.spark.network.util.{ByteUnit, JavaUtils}
import org.apache.spark.sql.internal.SQLConf

/** An option as users meet it: its entry in Spark's configuration, its allowed values, and a hint for who gave another value. No
  * message repeats the value of a secret one.
  */
final case class LaneshiftOption(entry: ConfigEntry[_], values: Values, hint: String, isSecret: Boolean) {

  /** Whether it is read when an application starts; the others are, when a query does. */
  def isReadAtStart: Boolean = OptionGroup.AtStart.exists(entry.key.startsWith)

  /** As Python has it: `enabled`, `shards_per_partition`. */
  def name: String =
    entry.key.stripPrefix(LaneshiftConf.Prefix).replace(
      '.',
      '_'
    ).replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT)
}

/** Makes options whose keys begin with `prefix`: each is an entry of Spark's own configuration, which refuses a wrong value when it
  * is set. Python has them by the file that is written from [[options]].
  *
  * In this package because `ConfigBuilder` and the registry of SQL entries are private to Spark.
  */
abstract class OptionGroup(prefix: String) {
  private val made = mutable.ArrayBuffer.empty[LaneshiftOption]

  /** The options, in the order in which they were made. */
  def options: Seq[LaneshiftOption] = made.toSeq

  protected def flag(name: String, default: Boolean, hint: String)(doc: String): ConfigEntry[Boolean] =
    add(
      Values.Flag,
      hint
    )(typed(name, doc, Values.Flag, hint)(_.booleanConf)((_, _) => true).createWithDefault(default))

  /** A whole number, or one of `or`, whose meaning `or` says. */
  protected def whole(name: String, low: Int, high: Int, default: Int, hint: String, or: (Int, String)*)(
      doc: String
  ): ConfigEntry[Int] = {
    val values = Values.Whole(low, high, or.map { case (number, means) => number.toString -> means })
    add(values, hint)(typed(name, doc, values, hint)(_.intConf) { (n, _) =>
      n >= low && n <= high || or.exists(_._1 == n)
    }.createWithDefault(default))
  }

  protected def anyLong(name: String, default: Long, hint: String)(doc: String): ConfigEntry[Long] = {
    val values = Values.Whole(Long.MinValue, Long.MaxValue)
    add(values, hint)(typed(name, doc, values, hint)(_.longConf)((_, _) => true).createWithDefault(default))
  }

  /** A whole number as text, or one of `words`. */
  protected def wholeOr(words: String*)(name: String, low: Int, high: Int, default: String, hint: String)(
      doc: String
  ): ConfigEntry[String] = {
    val values = Values.Whole(low, high, words.map(_ -> ""))
    add(values, hint)(typed(name, doc, values, hint)(_.stringConf) { (v, _) =>
      words.contains(v) || v.toIntOption.exists(n => n >= low && n <= high)
    }.createWithDefault(default))
  }

  /** A number above `low`, at most `high`. */
  protected def above(name: String, low: Double, high: Double, default: Double, hint: String)(
      doc: String
  ): ConfigEntry[Double] = {
    val values = Values.Above(low, high)
    add(values, hint)(
      typed(name, doc, values, hint)(_.doubleConf)((v, _) => v > low && v <= high).createWithDefault(default)
    )
  }

  /** A time in milliseconds. Less than one is refused, not rounded: 0 may mean something else, which `zero` says. */
  protected def time(name: String, low: Long, high: Long, default: Long, hint: String, zero: String = "")(
      doc: String
  ): ConfigEntry[Long] = {
    val values = Values.Time(low, high, zero)
    add(values, hint)(typed(name, doc, values, hint)(_.timeConf(TimeUnit.MILLISECONDS)) { (ms, text) =>
      if (ms == 0) zero.nonEmpty && JavaUtils.timeStringAs(text, TimeUnit.MICROSECONDS) == 0
      else ms >= low && ms <= high
    }.createWithDefault(default))
  }

  /** A number of bytes. */
  protected def size(name: String, low: Long, high: Long, default: Long, hint: String)(
      doc: String
  ): ConfigEntry[Long] = {
    val values = Values.Size(low, high)
    add(values, hint)(typed(name, doc, values, hint)(_.bytesConf(ByteUnit.BYTE)) { (bytes, _) =>
      bytes >= low && bytes <= high
    }.createWithDefault(default))
  }

  protected def oneOf(words: String*)(name: String, default: String, hint: String)(
      doc: String
  ): ConfigEntry[String] = {
    val values = Values.OneOf(words)
    add(values, hint)(
      typed(name, doc, values, hint)(_.stringConf)((v, _) => words.contains(v)).createWithDefault(default)
    )
  }

  protected def text(
      name: String,
      values: Values.Text,
      default: String,
      hint: String
  )(doc: String): ConfigEntry[String] =
    add(values, hint)(textual(name, values, hint, doc).createWithDefault(default))

  protected def maybe(name: String, values: Values.Text, hint: String, isSecret: Boolean = false)(
      doc: String
  ): OptionalConfigEntry[String] =
    add(values, hint, isSecret)(
      textual(name, values, hint, doc).createOptional.asInstanceOf[OptionalConfigEntry[String]]
    )

  private def textual(
      name: String,
      values: Values.Text,
      hint: String,
      doc: String
  ): TypedConfigBuilder[String] =
    typed(name, doc, values, hint)(_.stringConf)((v, _) => v.matches(values.form))

  /** Refuses other values, and text that is no such value at all, with the same words. */
  private def typed[T](name: String, doc: String, values: Values, hint: String)(
      kind: ConfigBuilder => TypedConfigBuilder[T]
  )(allows: (T, String) => Boolean): TypedConfigBuilder[T] = {
    val builder = SQLConf.buildConf(prefix + name).doc(doc).version(OptionGroup.Since)
    val plain = kind(builder)
    def parse(text: String): T = {
      val value =
        try Some(plain.converter(text)).filter(allows(_, text))
        catch { case _: IllegalArgumentException => None }
      value.getOrElse(throw new IllegalArgumentException(
        s"""The value '$text' in the config "${builder.key}" is invalid. Allowed is ${values.allowed}. $hint"""
      ))
    }
    new TypedConfigBuilder(plain.parent, parse, plain.stringConverter)
  }

  private def add[E <: ConfigEntry[_]](
      values: Values,
      hint: String,
      isSecret: Boolean = false
  )(entry: E): E = {
    made += LaneshiftOption(entry, values, hint, isSecret)
    entry
  }
}

private object OptionGroup {
  val Since = "0.1.0"

  val AtStart: Seq[String] =
    Seq(
      "control.",
      "executors.",
      "scheduler",
      "lanesPerExecutor",
      "remote.port"
    ).map("spark.sql.laneshift." + _)
}
