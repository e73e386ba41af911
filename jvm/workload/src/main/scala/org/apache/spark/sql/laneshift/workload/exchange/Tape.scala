package org.apache.spark.sql.laneshift.workload.exchange

/** What is known of a stock's trades so far; all of it in whole numbers, so that it is exact.
  *
  * @param orders, trades counts
  * @param volume, turnover sums of quantities, and of prices times quantities
  * @param high, low of all prices, 0 before the first trade
  * @param spreads sum of ask less bid over the orders after which both were there
  * @param recent newest prices, the oldest first, [[Tape.Window]] at most
  * @param away 1 or -1 while the price is above or below its moving average by more than the alarm allows
  */
final case class Tape(
    orders: Long,
    trades: Long,
    volume: Long,
    turnover: Long,
    high: Int,
    low: Int,
    spreads: Long,
    recent: Seq[Int],
    away: Int
) {

  /** Mean of the newest prices in hundredths of a tick, rounded down; 0 before the first trade. */
  def average: Long = if (recent.isEmpty) 0 else recent.map(_.toLong).sum * 100 / recent.size

  def after(report: OrderReport): Tape = {
    val bothWait = report.bid > 0 && report.ask > 0
    val spread = if (bothWait) report.ask - report.bid else 0
    val counted = copy(orders = orders + 1, spreads = spreads + spread)
    report.trades.foldLeft(counted)(_.after(_))
  }

  private def after(trade: Trade): Tape = copy(
    trades = trades + 1,
    volume = volume + trade.quantity,
    turnover = turnover + trade.price.toLong * trade.quantity,
    high = math.max(high, trade.price),
    low = if (low == 0) trade.price else math.min(low, trade.price),
    recent = (recent :+ trade.price).takeRight(Tape.Window),
    // Against the average before it.
    away = if (recent.isEmpty) 0 else Tape.away(trade.price, average)
  )
}

object Tape {
  final val Window = 20
  final val AlarmPercent = 1

  val Empty: Tape = Tape(0, 0, 0, 0, 0, 0, 0, Nil, 0)

  private def away(price: Int, average: Long): Int = {
    val hundredfold = price.toLong * 100 * 100
    if (hundredfold > average * (100 + AlarmPercent)) 1
    else if (hundredfold < average * (100 - AlarmPercent)) -1
    else 0
  }
}
