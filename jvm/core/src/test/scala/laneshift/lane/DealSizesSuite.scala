package laneshift.lane

import laneshift.ids.LaneId
import laneshift.testing.LimitedSuite

/** How many rows lanes that read ahead get, one after the other on one thread; each row takes a millisecond. */
class DealSizesSuite extends LimitedSuite {
  private val Ms = 1000000L

  private final class Batch(before: Option[DealsBefore] = None) {
    private var nowNs = 1L
    private var offered = 0L

    val deals = new Deals[Item](
      DealLimits(maxLanes = 4, rowBytes = 1L << 30, outputBytes = 1L << 30),
      DealWork.ahead(DealWork.Forever),
      initialLanes = 4,
      () => new ArrayBlock(1000),
      _ => (),
      () => nowNs,
      before = before
    )

    def offer(rows: Int): Unit = (0 until rows).foreach { _ =>
      deals.offer(Item(0, offered), null)
      offered += 1
    }

    /** The rows of the lane's next deal, which it has then. */
    def fill(lane: Int): Int = {
      var rows = 0
      var taken = deals.take(LaneId(lane))
      while (taken.isInstanceOf[Dealt.Rows[_]]) {
        val more = taken.asInstanceOf[Dealt.Rows[Item]].block.rows
        rows += more
        nowNs += more * Ms
        taken = deals.take(LaneId(lane))
      }
      rows
    }

    def next(lane: Int): Int = {
      val rows = fill(lane)
      deals.answered(LaneId(lane))
      rows
    }

    def rest(lane: Int): Int = Iterator.continually(next(lane)).takeWhile(_ > 0).sum
  }

  test("once all rows are there a deal leaves the other lanes their part") {
    val batch = new Batch
    import batch._
    offer(6000)
    // In blocks of 6 rows.
    assert(Seq.fill(4)(next(0)) == Seq(102, 102, 1002, 1002))
    assert(!deals.hasAllRows)
    deals.finish()
    assert(deals.hasAllRows)
    // Of 3,792.
    assert(Seq(1, 2, 3, 0).map(fill) == Seq(948, 948, 948, 948))
    deals.answered(LaneId(1))
    assert(rest(1) == 0)
  }

  test(
    "deals of the next batch begin as those of the last one were, and leave the other lanes their part from the first on"
  ) {
    val first = new Batch
    first.offer(2400)
    assert(Seq.fill(3)(first.next(0)) == Seq(102, 102, 1002))
    first.deals.finish()
    first.rest(0)
    val second = new Batch(first.deals.told)
    second.offer(1300)
    // Of 2,400, in blocks of 62.
    assert(Seq(0, 1).map(second.fill) == Seq(620, 620))
    second.offer(8000)
    assert(second.fill(2) == 1054, "of nobody knows how many")
    second.deals.finish()
    assert(second.fill(3) == 1178, "two turns of 9,300")
    second.deals.answered(LaneId(0))
    assert(second.rest(0) == 9300 - 2 * 620 - 1054 - 1178)
    assert(new Batch(second.deals.told).deals.told == second.deals.told, "one without rows tells nothing")
  }
}
