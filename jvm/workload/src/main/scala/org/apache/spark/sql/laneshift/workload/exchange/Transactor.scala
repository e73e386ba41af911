package org.apache.spark.sql.laneshift.workload.exchange

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.laneshift.workload.RowCost
import org.apache.spark.sql.streaming._

/** What became of an order.
  *
  * @param bid, ask best prices of the book after it, 0 where nobody waits
  */
final case class OrderReport(
    stock: Long,
    number: Long,
    trades: Seq[Trade],
    bid: Int,
    ask: Int,
    due: Long
)

/** Keeps each stock's book and matches orders, in the order of their numbers. Every order is reported, with the trades it made.
  *
  * @param costMicros what an order costs beside that, waited for
  */
final class Transactor(costMicros: Long) extends StatefulProcessor[Long, LimitOrder, OrderReport] {
  @transient private var kept: ValueState[Book] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    kept = getHandle.getValueState("book", Encoders.product[Book], TTLConfig.NONE)

  override def handleInputRows(
      stock: Long,
      orders: Iterator[LimitOrder],
      timers: TimerValues
  ): Iterator[OrderReport] = {
    var book = Option(kept.get()).getOrElse(Book.Empty)
    // A micro-batch has them in any order.
    val reports = orders.toArray.sortBy(_.number).map { order =>
      RowCost.spend(costMicros.toDouble, Exchange.Wait)
      val (now, trades) = book.after(order)
      book = now
      OrderReport(stock, order.number, trades, book.bid, book.ask, order.due)
    }
    kept.update(book)
    reports.iterator
  }
}
