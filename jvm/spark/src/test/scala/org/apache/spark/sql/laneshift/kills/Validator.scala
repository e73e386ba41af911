package org.apache.spark.sql.laneshift.kills

import org.apache.spark.sql.{DataFrame, Encoder, Encoders, Row}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming._

/** The `n`-th row of a key, counted from 0. The XOR of `v` over a key's rows 4i to 4i + 3 is zero. */
final case class Numbered(key: String, n: Long, v: Long)

object Numbered {
  def apply(key: Int, n: Long): Numbered = {
    def mixed(i: Long): Long = (key * 0x9e3779b97f4a7c15L) ^ (i * 0xff51afd7ed558ccdL)
    Numbered(s"key-$key", n, if (n % 4 == 3) mixed(n - 3) ^ mixed(n - 2) ^ mixed(n - 1) else mixed(n))
  }
}

/** What a key has seen: the number that is due and the XOR since the last multiple of four. */
final case class Seen(next: Long, xor: Long)

/** A row was lost, doubled or came out of turn. */
final class Wrong(what: String) extends RuntimeException(s"${Wrong.Mark} $what")

object Wrong {
  val Mark = "VALIDATOR:"
}

/** Fails the query at the first row that is not its key's next. A micro-batch gives a key's rows in no order. */
final class Sequence(realTime: Boolean) extends StatefulProcessor[String, Numbered, Numbered] {
  @transient private var seen: ValueState[Seen] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    seen = getHandle.getValueState("seen", Validator.seen, TTLConfig.NONE)

  override def handleInputRows(
      key: String,
      rows: Iterator[Numbered],
      timers: TimerValues
  ): Iterator[Numbered] =
    (if (realTime) rows else rows.toSeq.sortBy(_.n).iterator).map { row =>
      val before = if (seen.exists()) seen.get() else Seen(0L, 0L)
      if (row.n != before.next) throw new Wrong(s"$key has row ${row.n} where ${before.next} is due")
      val xor = before.xor ^ row.v
      if (row.n % 4 == 3 && xor != 0L) throw new Wrong(s"the XOR of $key is $xor at row ${row.n}")
      seen.update(Seen(row.n + 1, xor))
      row
    }
}

/** A query whose state can be told from its input, and what is wrong with one of its answers. */
sealed abstract class Validator(val name: String, val outputMode: String) extends Serializable {
  def build(rows: DataFrame, realTime: Boolean): DataFrame
  def wrong(answer: Row): Option[String]

  /** The state of a key after `rows` rows, as the state data source gives it. */
  def stateOf(key: Int, rows: Long): String
}

object Validator {
  private implicit val rowEncoder: Encoder[Numbered] = Encoders.product
  private implicit val keyEncoder: Encoder[String] = Encoders.STRING

  /** Made with this object, before anything is killed: Scala reflection remembers a class as missing whose loading was
    * interrupted.
    */
  private[kills] val seen: Encoder[Seen] = Encoders.product

  private def xorOf(key: Int, rows: Long): Long =
    (rows / 4 * 4 until rows).foldLeft(0L)((x, n) => x ^ Numbered(key, n).v)

  /** State by a function of one's own, which checks each row. */
  val sequence: Validator = new Validator("transformWithState", "update") {
    override def build(rows: DataFrame, realTime: Boolean): DataFrame = rows
      .as[Numbered]
      .groupByKey(_.key)
      .transformWithState(new Sequence(realTime), TimeMode.None(), OutputMode.Update())
      .toDF()
    override def wrong(answer: Row): Option[String] = None
    override def stateOf(key: Int, rows: Long): String = s"[key-$key] [$rows,${xorOf(key, rows)}]"
  }

  /** Spark's own aggregation: as many rows as the newest one's number says. */
  val aggregation: Validator = new Validator("aggregation", "update") {
    override def build(rows: DataFrame, realTime: Boolean): DataFrame =
      rows.groupBy("key").agg(count("*").as("rows"), max("n").as("newest"), bit_xor(col("v")).as("xor"))
    override def wrong(answer: Row): Option[String] = {
      val (rows, newest, xor) = (answer.getLong(1), answer.getLong(2), answer.getLong(3))
      if (rows != newest + 1) Some(s"$rows rows of ${answer.getString(0)}, of which the newest is $newest")
      else if (rows % 4 == 0 && xor != 0L) Some(s"the XOR of ${answer.getString(0)} is $xor after $rows rows")
      else None
    }
    override def stateOf(key: Int, rows: Long): String = s"[key-$key] [$rows,${rows - 1},${xorOf(key, rows)}]"
  }

  val all: Seq[Validator] = Seq(sequence, aggregation)
}
