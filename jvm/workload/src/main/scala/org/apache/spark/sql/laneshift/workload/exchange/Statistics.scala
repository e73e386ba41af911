package org.apache.spark.sql.laneshift.workload.exchange

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.laneshift.workload.RowCost
import org.apache.spark.sql.streaming._

/** An order's trades and what is known of its stock after them.
  *
  * @param average moving average of the price, in hundredths of a tick
  * @param alarm `up` or `down` if the price has left its moving average with this order, else empty
  */
final case class Answer(
    stock: Long,
    number: Long,
    trades: Seq[Trade],
    orders: Long,
    traded: Long,
    volume: Long,
    turnover: Long,
    high: Int,
    low: Int,
    spreads: Long,
    average: Long,
    alarm: String,
    due: Long
)

/** Keeps each stock's [[Tape]], and answers every order's report.
  *
  * @param costMicros what a report costs beside that, waited for
  */
final class Statistics(costMicros: Long) extends StatefulProcessor[Long, OrderReport, Answer] {
  @transient private var kept: ValueState[Tape] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    kept = getHandle.getValueState("tape", Encoders.product[Tape], TTLConfig.NONE)

  override def handleInputRows(
      stock: Long,
      reports: Iterator[OrderReport],
      timers: TimerValues
  ): Iterator[Answer] = {
    var tape = Option(kept.get()).getOrElse(Tape.Empty)
    val answers = reports.toArray.sortBy(_.number).map { report =>
      RowCost.spend(costMicros.toDouble, Exchange.Wait)
      val before = tape.away
      tape = tape.after(report)
      answer(report, tape, if (tape.away == before) 0 else tape.away)
    }
    kept.update(tape)
    answers.iterator
  }

  private def answer(report: OrderReport, tape: Tape, alarm: Int) = Answer(
    report.stock,
    report.number,
    report.trades,
    tape.orders,
    tape.trades,
    tape.volume,
    tape.turnover,
    tape.high,
    tape.low,
    tape.spreads,
    tape.average,
    if (alarm > 0) "up" else if (alarm < 0) "down" else "",
    report.due
  )
}
