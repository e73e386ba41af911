package laneshift.lane

import scala.util.Random

import laneshift.testing.LimitedSuite

/** How many rows a deal gets, by what deals have taken. */
class DealCostSuite extends LimitedSuite {
  private val Ms = 1000000L

  /** So many deals, each as large as was found best, in milliseconds: `start` once and `row` for each row. */
  private def deals(cost: Costs, count: Int, start: Double, row: Double): Seq[Long] =
    Seq.fill(count) {
      val rows = cost.rowsPerDeal
      cost.learn(rows.toInt, ((start + row * rows) * Ms).toLong)
      rows
    }

  private final class Costs(work: DealWork) {
    private var cost = DealCost.unknown(work)
    def learn(rows: Int, ns: Long): Unit = cost = cost.and(work, rows, ns)
    def rowsPerDeal: Long = cost.rowsPerDeal
    def nsPerRow: Double = cost.nsPerRow
  }

  private def ahead = new Costs(DealWork.ahead(DealWork.Forever))

  test("a deal has a second of work, where beginning it is nothing") {
    val cost = ahead
    deals(cost, 4, start = 0, row = 1)
    assert(deals(cost, 3, start = 0, row = 1) == Seq(1000, 1000, 1000) && cost.nsPerRow == Ms.toDouble)
  }

  test("what takes long to begin gets deals that are worth it") {
    for (start <- Seq(200.0, 5000.0, 30000.0)) {
      val cost = ahead
      val first = deals(cost, 40, start, row = 1)
      assert(first.min >= 5, first)
      deals(cost, 20, start, row = 1).foreach { rows =>
        assert(rows > 8.5 * start && rows < 9.5 * start, s"$rows rows for $start ms")
      }
    }
  }

  test("rows that cost a second each get a deal of their own, whatever they took before and take later") {
    val cost = ahead
    assert(deals(cost, 4, start = 50, row = 1000) == Seq(100, 25, 1, 1))
    deals(cost, 20, start = 50, row = 1)
    assert(deals(cost, 1, start = 50, row = 1).head > 900)
    assert(deals(cost, 10, start = 50, row = 1000).drop(1).max == 1)
  }

  test("deals that take longer now and shorter then are taken for no beginning") {
    for (seed <- 1 to 300) {
      val (cost, random) = (ahead, new Random(seed))
      val took = Seq.fill(60) {
        val rows = cost.rowsPerDeal
        val ms = (55 + rows) * (0.5 + random.nextDouble())
        cost.learn(rows.toInt, (ms * Ms).toLong)
        ms
      }
      assert(took.max < 6000, s"seed $seed: $took")
    }
  }

  test("rows of operators that do not read ahead cost what they take") {
    val cost = new Costs(DealWork.RowByRow)
    deals(cost, 20, start = 0, row = 0.01)
    assert((399L to 401L).contains(cost.rowsPerDeal), cost.rowsPerDeal)
    cost.learn(400, 4000 * Ms)
    assert(cost.rowsPerDeal <= 2)
  }
}
