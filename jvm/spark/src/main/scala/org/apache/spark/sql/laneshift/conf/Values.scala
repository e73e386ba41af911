package org.apache.spark.sql.laneshift.conf

/** The values that an option allows. */
sealed trait Values {

  /** In words, as part of a sentence: "allowed is ...". */
  def allowed: String

  /** For Python: `kind`, and what bounds values of this kind. */
  def json: Map[String, Any]
}

object Values {
  case object Flag extends Values {
    override val allowed = "true or false"
    override val json: Map[String, Any] = Map("kind" -> "flag")
  }

  /** Whole numbers, and some words or numbers beside them with what they mean, which may be clear. */
  final case class Whole(low: Long, high: Long, or: Seq[(String, String)] = Nil) extends Values {
    override def allowed: String = {
      val numbers =
        if (low == Long.MinValue) "a whole number of 64 bits"
        else s"a whole number from $low ${if (high == Int.MaxValue) "on" else s"to $high"}"
      val words = or.map { case (word, means) => if (means.isEmpty) s"'$word'" else s"$word $means" }
      listed(words :+ numbers)
    }
    override def json: Map[String, Any] =
      Map("kind" -> "whole", "low" -> low, "high" -> high, "words" -> or.map(_._1))
  }

  final case class Above(low: Double, high: Double) extends Values {
    override def allowed: String = f"a number greater than $low%.0f, at most $high%.0f"
    override def json: Map[String, Any] = Map("kind" -> "above", "low" -> low, "high" -> high)
  }

  /** Milliseconds; 0 as well if `zero` says what it means. */
  final case class Time(low: Long, high: Long, zero: String) extends Values {
    override def allowed: String = {
      val times = s"a time from ${span(low)} to ${span(high)}, such as '200ms'"
      if (zero.isEmpty) times else s"$times, or 0 $zero"
    }
    override def json: Map[String, Any] =
      Map("kind" -> "time", "low" -> low, "high" -> high, "zero" -> zero.nonEmpty)

    private def span(ms: Long): String = {
      val (unit, size) =
        Seq("h" -> 3600000L, "min" -> 60000L, "s" -> 1000L, "ms" -> 1L).find(ms % _._2 == 0).get
      s"${ms / size}$unit"
    }
  }

  /** Bytes, to what nobody has. */
  val Most: Long = 1L << 60

  /** Bytes. */
  final case class Size(low: Long, high: Long) extends Values {
    override def allowed: String =
      s"a size from ${bytes(low)} ${if (high == Most) "on" else s"to ${bytes(high)}"}, such as '512k', '1m' or a number of bytes"
    override def json: Map[String, Any] = Map("kind" -> "size", "low" -> low, "high" -> high)

    private def bytes(n: Long): String = {
      val (unit, shift) = Seq("t" -> 40, "g" -> 30, "m" -> 20, "k" -> 10).find(u =>
        n > 0 && n % (1L << u._2) == 0
      ).getOrElse("" -> 0)
      s"${n >> shift}$unit"
    }
  }

  final case class OneOf(words: Seq[String]) extends Values {
    override def allowed: String = listed(words.map(word => s"'$word'"))
    override def json: Map[String, Any] = Map("kind" -> "word", "words" -> words)
  }

  /** Text that matches `form`. */
  final case class Text(form: String, allowed: String, kind: String = "text") extends Values {
    override def json: Map[String, Any] = Map("kind" -> kind, "form" -> form)
  }

  val File: Text = Text("(?s).*\\S.*", "the path of a file on the driver's machine", kind = "path")
  val FileOrNone: Text = Text("(?s).*", "the path of a file on the driver's machine")

  private def listed(words: Seq[String]): String =
    if (words.size < 2) words.mkString else words.init.mkString(", ") + " or " + words.last
}
