package org.apache.spark.sql.laneshift.workload.exchange

import laneshift.testing.LimitedSuite

class BookSuite extends LimitedSuite {

  private var number = 0L
  private def order(buy: Boolean, price: Int, quantity: Int): LimitOrder = {
    number += 1
    LimitOrder(7, number, number.toInt, buy, price, quantity, 0)
  }

  private def after(orders: LimitOrder*): (Book, Seq[Trade]) =
    orders.foldLeft((Book.Empty, Seq.empty[Trade])) { case ((book, _), next) => book.after(next) }

  test("the best price goes first, of one price the oldest") {
    val asks = Seq(order(false, 11, 5), order(false, 10, 5), order(false, 10, 7), order(false, 12, 5))
    val buy = order(true, 11, 14)
    val (book, trades) = after(asks :+ buy: _*)
    def met(i: Int, price: Int, quantity: Int) =
      Trade(price, quantity, buy.trader, asks(i).trader, asks(i).number)
    assert(trades == Seq(met(1, 10, 5), met(2, 10, 7), met(0, 11, 2)))
    assert(book.asks.map(r => (r.price, r.quantity)) == Seq((11, 3), (12, 5)))
    assert(book.bids.isEmpty && book.bid == 0 && book.ask == 11)
  }

  test("what meets nobody waits, and a seller gets the price of the bid that rested") {
    val (bids, asks) = (Seq(order(true, 9, 3), order(true, 10, 2), order(true, 9, 4)), order(false, 12, 1))
    val (book, none) = after(bids :+ asks: _*)
    assert(none.isEmpty)
    assert(book.bids.map(_.number) == Seq(bids(1), bids(0), bids(2)).map(_.number))
    val sell = order(false, 8, 20)
    val (left, trades) = book.after(sell)
    assert(trades.map(t => (t.price, t.quantity)) == Seq((10, 2), (9, 3), (9, 4)))
    assert(trades.forall(_.seller == sell.trader))
    assert(left.bids.isEmpty && left.asks.map(r => (r.price, r.quantity)) == Seq((8, 11), (12, 1)))
  }

  test("no more orders wait than the book is deep: the worst are cancelled") {
    val many = (1 to Book.Depth + 10).map(i => order(true, 100 + i, 1))
    val (book, _) = after(many: _*)
    assert(book.bids.map(_.price) == many.map(_.price).reverse.take(Book.Depth))
    assert(book.after(order(true, 1, 1))._1 == book)
  }

  test("a tape adds up, and an alarm is for a price that leaves its average") {
    def report(bid: Int, ask: Int, trades: (Int, Int)*) =
      OrderReport(7, 0, trades.map { case (p, q) => Trade(p, q, 1, 2, 3) }, bid, ask, 0)
    val first = Tape.Empty.after(report(0, 0)).after(report(90, 100, 100 -> 2, 101 -> 4))
    assert(first == Tape(2, 2, 6, 604, 101, 100, 10, Seq(100, 101), 0))
    assert(first.average == 10050)
    assert(first.after(report(0, 5, 102 -> 1)).away == 1)
    assert(first.after(report(0, 5, 99 -> 1)).away == -1)
    assert(first.after(report(0, 5, 102 -> 1)).spreads == 10)
    val long = (1 to Tape.Window + 5).foldLeft(Tape.Empty)((tape, i) => tape.after(report(0, 0, i -> 1)))
    assert(long.recent == (6 to Tape.Window + 5) && long.low == 1 && long.high == Tape.Window + 5)
  }
}
