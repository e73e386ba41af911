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
  def isReadAtStart: Boolean = OptionGroup.isReadAtStart(entry.key)

  /** As Python has it: `enabled`, `shards_per_partition`. */
  def name: String = {
    val words = entry.key.stripPrefix(OptionGroup.Root).replace('.', '_')
    words.replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT)
  }
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
    option(name, Values.Flag, default, hint, doc)(_.booleanConf)((_, _) => true)

  /** A whole number, or one of `or`, whose meaning `or` says. */
  protected def whole(name: String, low: Int, high: Int, default: Int, hint: String, or: (Int, String)*)(
      doc: String
  ): ConfigEntry[Int] = {
    val values = Values.Whole(low, high, or.map { case (number, means) => number.toString -> means })
    option(name, values, default, hint, doc)(_.intConf)((n, _) =>
      n >= low && n <= high || or.exists(_._1 == n)
    )
  }

  protected def anyLong(name: String, default: Long, hint: String)(doc: String): ConfigEntry[Long] =
    option(name, Values.Whole(Long.MinValue, Long.MaxValue), default, hint, doc)(_.longConf)((_, _) => true)

  /** A whole number as text, or one of `words`. */
  protected def wholeOr(words: String*)(name: String, low: Int, high: Int, default: String, hint: String)(
      doc: String
  ): ConfigEntry[String] =
    option(name, Values.Whole(low, high, words.map(_ -> "")), default, hint, doc)(_.stringConf) { (v, _) =>
      words.contains(v) || v.toIntOption.exists(n => n >= low && n <= high)
    }

  /** A number above `low`, at most `high`. */
  protected def above(name: String, low: Double, high: Double, default: Double, hint: String)(
      doc: String
  ): ConfigEntry[Double] =
    option(name, Values.Above(low, high), default, hint, doc)(_.doubleConf)((v, _) => v > low && v <= high)

  /** A time in milliseconds. Less than one is refused, not rounded: 0 may mean something else, which `zero` says. */
  protected def time(name: String, low: Long, high: Long, default: Long, hint: String, zero: String = "")(
      doc: String
  ): ConfigEntry[Long] =
    option(name, Values.Time(low, high, zero), default, hint, doc)(_.timeConf(TimeUnit.MILLISECONDS)) {
      (ms, text) =>
        if (ms == 0) zero.nonEmpty && JavaUtils.timeStringAs(text, TimeUnit.MICROSECONDS) == 0
        else ms >= low && ms <= high
    }

  /** A number of bytes. */
  protected def size(name: String, low: Long, high: Long, default: Long, hint: String)(
      doc: String
  ): ConfigEntry[Long] =
    option(name, Values.Size(low, high), default, hint, doc)(_.bytesConf(ByteUnit.BYTE)) { (bytes, _) =>
      bytes >= low && bytes <= high
    }

  protected def oneOf(words: String*)(name: String, default: String, hint: String)(
      doc: String
  ): ConfigEntry[String] =
    option(name, Values.OneOf(words), default, hint, doc)(_.stringConf)((v, _) => words.contains(v))

  protected def text(name: String, values: Values.Text, default: String, hint: String)(
      doc: String
  ): ConfigEntry[String] =
    option(name, values, default, hint, doc)(_.stringConf)((v, _) => v.matches(values.form))

  /** Text that may be left out. */
  protected def maybe(name: String, values: Values.Text, hint: String, isSecret: Boolean = false)(
      doc: String
  ): OptionalConfigEntry[String] = {
    val typed = checked(name, values, hint, doc, isSecret)(_.stringConf)((v, _) => v.matches(values.form))
    val entry = typed.createOptional.asInstanceOf[OptionalConfigEntry[String]]
    made += LaneshiftOption(entry, values, hint, isSecret)
    entry
  }

  private def option[T](name: String, values: Values, default: T, hint: String, doc: String)(
      kind: ConfigBuilder => TypedConfigBuilder[T]
  )(allows: (T, String) => Boolean): ConfigEntry[T] = {
    val entry = checked(name, values, hint, doc)(kind)(allows).createWithDefault(default)
    made += LaneshiftOption(entry, values, hint, isSecret = false)
    entry
  }

  /** Refuses other values, and text that is no such value at all, with the same words. */
  private def checked[T](name: String, values: Values, hint: String, doc: String, isSecret: Boolean = false)(
      kind: ConfigBuilder => TypedConfigBuilder[T]
  )(allows: (T, String) => Boolean): TypedConfigBuilder[T] = {
    val builder = SQLConf.buildConf(prefix + name).doc(doc).version(OptionGroup.Since)
    val plain = kind(builder)
    def parse(text: String): T = {
      val value =
        try Some(plain.converter(text)).filter(allows(_, text))
        catch { case _: IllegalArgumentException => None }
      value.getOrElse {
        val shown = if (isSecret) "..." else text
        throw new IllegalArgumentException(
          s"""The value '$shown' in the config "${builder.key}" is invalid. Allowed is ${values.allowed}. $hint"""
        )
      }
    }
    new TypedConfigBuilder(plain.parent, parse, plain.stringConverter)
  }
}

private object OptionGroup {
  val Root = "spark.sql.laneshift."
  val Since = "0.1.0"
  val Hour = 3600000L

  private val AtStart: Seq[String] =
    Seq("control.", "executors.", "autoscaler", "lanesPerExecutor", "remote.port").map(Root + _)

  def isReadAtStart(key: String): Boolean = AtStart.exists(key.startsWith)
}
