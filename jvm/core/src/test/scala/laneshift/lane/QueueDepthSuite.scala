package laneshift.lane

import java.util.concurrent.TimeUnit.{MILLISECONDS, SECONDS}

import laneshift.ids.LaneId
import laneshift.testing.LimitedSuite

class QueueDepthSuite extends LimitedSuite {
  private val second = QueueTime(SECONDS.toNanos(1))

  private def ms(n: Long): Long = MILLISECONDS.toNanos(n)

  private def isBetween(least: Long, most: Long)(n: Long): Boolean = n >= least && n <= most

  test("as many rows as the lane got rid of in that time, and few until it has") {
    val depth = new QueueDepth(second)
    assert(depth.rows == second.leastRows)
    (1 to 100).foreach(i => depth.note(done = 10L * i, ms(i.toLong)))
    assert(depth.rows == 1000)
    (1 to 300).foreach(i => depth.note(done = 1000L + 10L * i, ms(100L + 10L * i)))
    assert(isBetween(1000, 1100)(depth.rows))
  }

  test("a lane that goes on after a long row, or whose rows went to others, keeps room for a few") {
    val depth = new QueueDepth(second)
    depth.note(done = 1000, ms(10))
    assert(depth.rows == 1000)
    (1 to 20).foreach(i => depth.note(done = 1000L + i, ms(1000L * i)))
    assert(depth.rows == second.leastRows)
    depth.note(done = 10, ms(20100))
    assert(depth.rows == second.leastRows)
  }

  /** Rows that are offered to one lane until it has no room, while it takes `us` microseconds for each. */
  private def waiting(us: Long, queueMs: Option[Long]): Long = {
    var now = 1L
    val inlet = new Inlet[Item](
      InletLimits(maxLanes = 1, queueBytes = 1L << 20, queueTime = queueMs.map(n => QueueTime(ms(n)))),
      Array(0),
      1,
      () => new ArrayBlock(64),
      () => 0L,
      _ => (),
      _ => (),
      idleIsDone = true,
      clock = () => now
    )
    var id = 0
    def fill(): Unit = while (inlet.tryOffer(Item(0, id.toLong), 0)) id += 1
    fill()
    (0 until 400).foreach { _ =>
      inlet.take(LaneId(0)) match {
        case Taken.Rows(block) => now += block.rows * us * 1000
        case other => fail(s"$other")
      }
      fill()
    }
    inlet.stats.queueRows.sum
  }

  test("what waits is bounded in time, whatever a row costs") {
    val (cheap, costly) = (waiting(us = 10, queueMs = Some(20)), waiting(us = 1000, queueMs = Some(500)))
    assert(isBetween(1800, 2200)(cheap), s"$cheap rows")
    assert(isBetween(450, 550)(costly), s"$costly rows")
    assert(waiting(us = 100000, queueMs = Some(500)) == second.leastRows)
    assert(waiting(us = 1000, queueMs = None) > 10000)
  }
}
