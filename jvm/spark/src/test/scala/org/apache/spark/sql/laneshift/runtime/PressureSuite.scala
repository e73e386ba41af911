package org.apache.spark.sql.laneshift.runtime

import java.util.concurrent.TimeUnit

import scala.util.Random

import org.apache.spark.sql.laneshift.spec.OperatorKey

import laneshift.testing.LimitedSuite

/** Looks at counters of rows, 25 ms apart. */
class PressureSuite extends LimitedSuite {
  private val LookNs = TimeUnit.MILLISECONDS.toNanos(25)

  /** A partition to which rows come at random. */
  private final class Partition(seed: Long) {
    private val random = new Random(seed)
    private val pressure = new Pressure(OperatorKey("query", "run", 0L), 0)
    var nowNs = 1L
    private var rows = 0.0

    private def poisson(mean: Double): Double =
      if (mean > 200) math.max(0.0, math.rint(mean + math.sqrt(mean) * random.nextGaussian()))
      else {
        val end = math.exp(-mean)
        Iterator.iterate(random.nextDouble())(_ * random.nextDouble()).takeWhile(_ > end).size.toDouble
      }

    def begin(): Unit = {
      pressure.begin()
      rows = 0.0
    }

    /** The seconds, after this moment, at which it would have told somebody. */
    def told(seconds: Double)(rate: Double => Double): Seq[Double] = {
      val sinceNs = nowNs
      (1 to (seconds * 40).toInt).flatMap { _ =>
        val atS = (nowNs - sinceNs) / 1e9
        nowNs += LookNs
        rows += poisson(rate(atS) / 40)
        pressure.look(Passed(nowNs, rows.toLong, 0L, 0L)).map { from =>
          assert(nowNs - from.atNs >= TimeUnit.MILLISECONDS.toNanos(100))
          (nowNs - sinceNs) / 1e9
        }
      }
    }
  }

  Seq(1.0, 20.0, 200.0, 5000.0, 100000.0).foreach { rate =>
    test(s"a constant load of $rate rows/s is told once in an hour at most, full lanes or not") {
      assert(new Partition(1L).told(3600)(_ => rate).size <= 1)
    }
  }

  test(
    "eight times the load is seen within 150 ms, what a single lane gets of it through within 250"
  ) {
    Seq(8.0 -> 0.15, 2.4 -> 0.25).foreach { case (times, withinS) =>
      val partition = new Partition(2L)
      assert(partition.told(6)(_ => 200).isEmpty)
      val told = partition.told(1)(_ => 200 * times)
      assert(told.headOption.exists(_ <= withinS), s"$times times: $told")
    }
  }

  test("rows after silence are seen, a few slow ones are not") {
    val partition = new Partition(3L)
    assert(partition.told(2)(_ => 0).isEmpty)
    assert(partition.told(3)(_ => 5).isEmpty)
    assert(partition.told(1)(_ => 500).headOption.exists(_ <= 0.2))
  }

  test("what comes in bursts again and again is its load") {
    val partition = new Partition(4L)
    def flapping(atS: Double) = if ((atS * 2).toInt % 2 == 0) 1600.0 else 100.0
    partition.told(5)(flapping)
    assert(partition.told(600)(flapping).isEmpty)
  }

  test("what waited between two batches is no rise") {
    val partition = new Partition(5L)
    partition.told(5)(_ => 200)
    partition.begin()
    assert(partition.told(1)(atS => if (atS < 0.3) 2000 else 200).isEmpty)
    assert(partition.told(5)(_ => 200).isEmpty)
  }
}
