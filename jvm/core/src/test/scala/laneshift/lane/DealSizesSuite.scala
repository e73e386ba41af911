package laneshift.lane

import laneshift.ids.LaneId
import laneshift.testing.LimitedSuite

/** How many rows lanes that read ahead get, one after the other on one thread; each row takes a millisecond. */
class DealSizesSuite extends LimitedSuite {
  private val Ms = 1000000L

  test("once all rows are there a deal leaves the other lanes their part") {
    var nowNs = 1L
    val deals = new Deals[Item](
      DealLimits(maxLanes = 4, rowBytes = 1L << 30, outputBytes = 1L << 30),
      DealWork.ahead(DealWork.Forever),
      initialLanes = 4,
      () => new ArrayBlock(1000),
      _ => (),
      () => nowNs
    )

    /** The rows of the lane's next deal. */
    def next(lane: Int): Int = {
      var rows = 0
      var taken = deals.take(LaneId(lane))
      while (taken.isInstanceOf[Dealt.Rows[_]]) {
        val more = taken.asInstanceOf[Dealt.Rows[Item]].block.rows
        rows += more
        nowNs += more * Ms
        taken = deals.take(LaneId(lane))
      }
      deals.answered(LaneId(lane))
      rows
    }
    (0 until 6000).foreach(i => deals.offer(Item(0, i.toLong), null))
    assert(Seq.fill(4)(next(0)) == Seq(100, 100, 1000, 1000))
    assert(!deals.hasAllRows)
    deals.finish()
    assert(deals.hasAllRows)
    // 3,800 are left.
    assert(Seq(1, 2, 3).map(next) == Seq(950, 725, 550))
    assert(next(0) == 400)
    assert(Iterator.continually(next(1)).takeWhile(_ > 0).sum == 1175)
  }
}
