package org.apache.spark.sql.laneshift.workload.exchange

/** A limit order.
  *
  * @param number of the order: those of a stock come in the order of their numbers
  * @param price the limit, in ticks
  * @param due when it came (microseconds since 1970)
  */
final case class LimitOrder(
    stock: Long,
    number: Long,
    trader: Int,
    buy: Boolean,
    price: Int,
    quantity: Int,
    due: Long
) {
  private[exchange] def meets(other: Resting): Boolean =
    if (buy) other.price <= price else other.price >= price

  private[exchange] def tradeWith(other: Resting, quantity: Int): Trade = {
    val (buyer, seller) = if (buy) (trader, other.trader) else (other.trader, trader)
    Trade(other.price, quantity, buyer, seller, other.number)
  }
}

/** What is left of an order and waits in the book. */
final case class Resting(number: Long, trader: Int, price: Int, quantity: Int)

/** A part of an order meets one that rested, at that one's price. */
final case class Trade(price: Int, quantity: Int, buyer: Int, seller: Int, resting: Long)

/** What waits for a stock: bids and asks, each the best first, of one price the oldest first. */
final case class Book(bids: Seq[Resting], asks: Seq[Resting]) {

  /** The best prices, 0 where nobody waits. */
  def bid: Int = bids.headOption.fold(0)(_.price)
  def ask: Int = asks.headOption.fold(0)(_.price)

  /** The book after an order, and the trades that it made, in their order. */
  def after(order: LimitOrder): (Book, Seq[Trade]) = {
    val (mine, others) = if (order.buy) (bids, asks) else (asks, bids)
    val trades = Seq.newBuilder[Trade]
    var (left, met) = (order.quantity, 0)
    var rest = Option.empty[Resting]
    while (left > 0 && met < others.size && order.meets(others(met))) {
      val other = others(met)
      val quantity = math.min(left, other.quantity)
      trades += order.tradeWith(other, quantity)
      rest = Option.when(quantity < other.quantity)(other.copy(quantity = other.quantity - quantity))
      left -= quantity
      met += 1
    }
    val waiting = rest ++: others.drop(met)
    val joined = if (left > 0) Book.joined(mine, order, left) else mine
    (if (order.buy) Book(joined, waiting) else Book(waiting, joined), trades.result())
  }
}

object Book {

  /** Most orders that wait on a side: what is behind them is cancelled. */
  final val Depth = 50

  val Empty: Book = Book(Nil, Nil)

  /** A side of the book with what is left of an order: behind those of its price, which are older. */
  private def joined(side: Seq[Resting], order: LimitOrder, quantity: Int): Seq[Resting] = {
    val before = side.takeWhile(r => if (order.buy) r.price >= order.price else r.price <= order.price)
    val resting = Resting(order.number, order.trader, order.price, quantity)
    ((before :+ resting) ++ side.drop(before.size)).take(Depth)
  }
}
