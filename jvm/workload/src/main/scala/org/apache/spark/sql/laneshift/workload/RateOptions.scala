package org.apache.spark.sql.laneshift.workload

import java.nio.charset.StandardCharsets

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** Reads the option `rate` and those that belong to it. */
private[workload] final class RateOptions(read: OptionReader, hadoop: => Configuration) {
  import RateOptions._

  val kind: String = read.choice("rate", "constant", Uses.map(_._1))

  /** The schedule, and a text that two workloads share if and only if they have the same one. */
  def schedule(seed: Long): (RateSchedule, String) = {
    val used = Uses.toMap.apply(kind)
    Names.tail.filterNot(used.contains).foreach { name =>
      read.reject(name, s"has no meaning with rate=$kind, which uses ${used.mkString(", ")}")
    }
    kind match {
      case "constant" => (RateFunctions.constant(rate), s"constant $rate")
      case "sine" =>
        val period = read.span("ratePeriod", 60 * Second)
        (RateFunctions.sine(rate, amplitude, period), s"sine $rate $amplitude ${period}us")
      case "random" =>
        val period = read.span("ratePeriod", 10 * Second)
        (RateFunctions.random(rate, amplitude, period, seed), s"random $rate $amplitude ${period}us")
      case "stage" =>
        val list = stages(required("rateStages", "such as 100:10s,800:5s"))
        (RateFunctions.stages(list), list.map { case (r, t) => s"$r:${t}us" }.mkString("stage ", ",", ""))
      case "trace" =>
        val period = read.span("ratePeriod", Second)
        val rates =
          trace(required("rateTrace", "such as 100,400,250, or the path of a file with one rate a line"))
        (
          RateFunctions.trace(rates, period),
          s"trace of ${rates.length} #${java.util.Arrays.hashCode(rates)} ${period}us"
        )
    }
  }

  private def rate = read.number("rowsPerSecond", 1000, 0.001, MaxRate)
  private def amplitude = read.number("rateAmplitude", 0.5, 0, 1)

  private def required(name: String, example: String): String = read.text(name).filter(_.nonEmpty).getOrElse {
    throw new WorkloadOptionException(
      s"${read.source} with rate=$kind needs the option '$name', $example."
    )
  }

  private def stages(text: String): Seq[(Double, Long)] = {
    val parsed = text.split(',').toSeq.map { stage =>
      stage.split(':') match {
        case Array(rate, time) => rateOf(rate).zip(TimeSpan.parse(time))
        case _ => None
      }
    }
    if (parsed.contains(None) || !parsed.flatten.exists(_._1 > 0))
      read.fail(
        "rateStages",
        text,
        s"a list of rate:time with $RateRange, one of them above 0, and ${TimeSpan.Allowed}",
        "an example is 100:10s,800:5s"
      )
    parsed.flatten
  }

  private def trace(text: String): Array[Double] = {
    val inline = text.forall(c => c.isDigit || ",.eE+- \t".contains(c))
    val parts = if (inline) text.split(',').toSeq else lines(text)
    val rates = parts.map(rateOf)
    if (rates.contains(None) || !rates.flatten.exists(_ > 0) || rates.length > MaxSlots) {
      val bad =
        parts.zip(rates).collectFirst { case (part, None) => s" ('${part.trim}' is none)" }.getOrElse("")
      read.fail(
        "rateTrace",
        text,
        s"1 to $MaxSlots rates$bad, each $RateRange, one of them above 0",
        "give them with commas or in a file, one a line"
      )
    }
    rates.flatten.toArray
  }

  private def lines(file: String): Seq[String] =
    try {
      val path = new Path(file)
      Using.resource(path.getFileSystem(hadoop).open(path)) { in =>
        val text = new String(in.readAllBytes(), StandardCharsets.UTF_8)
        text.linesIterator.map(_.takeWhile(_ != '#').trim).filter(_.nonEmpty).toSeq
      }
    } catch {
      case NonFatal(e) =>
        read.fail(
          "rateTrace",
          file,
          s"a list of rates or the path of a readable file (reading it failed: $e)",
          "an example is 100,400,250"
        )
    }

  private def rateOf(text: String): Option[Double] =
    text.trim.toDoubleOption.filter(r => r >= 0 && r <= MaxRate)
}

private[workload] object RateOptions {
  private val Second = 1000000L
  private[workload] val MaxRate = 1e9
  private val MaxSlots = 100000
  private val RateRange = "rates from 0 to 1000000000 rows/s"

  /** Which options each rate function uses. */
  private val Uses = Seq(
    "constant" -> Seq("rowsPerSecond"),
    "sine" -> Seq("rowsPerSecond", "ratePeriod", "rateAmplitude"),
    "stage" -> Seq("rateStages"),
    "random" -> Seq("rowsPerSecond", "ratePeriod", "rateAmplitude"),
    "trace" -> Seq("rateTrace", "ratePeriod")
  )

  /** Every option that it reads, in the order of the documentation. */
  val Names: Seq[String] = "rate" +: Uses.flatMap(_._2).distinct
}
