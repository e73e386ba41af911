package org.apache.spark.sql.laneshift.workload

import org.scalacheck.Gen

import laneshift.testing.{LimitedSuite, Seeds}

class RateSuite extends LimitedSuite {

  private val second = 1000000L

  /** Rows that are due within [from, until) seconds. */
  private def rows(s: RateSchedule, from: Double, until: Double): Long =
    s.rowsBy((until * second).toLong - 1) - s.rowsBy((from * second).toLong - 1)

  test("constant: row n is due after n / rate seconds") {
    val s = RateFunctions.constant(250)
    assert((0L to 1000L by 250L).map(s.dueMicros) == (0L to 4L).map(_ * second))
    assert(s.dueMicros(1) == 4000)
    assert(rows(s, 0, 1) == 250 && rows(s, 3600, 3661) == 61 * 250)
  }

  test("constant: rates below one row a second") {
    val s = RateFunctions.constant(0.1)
    assert((0L to 3L).map(s.dueMicros) == Seq(0L, 10 * second, 20 * second, 30 * second))
    assert(s.rowsBy(9999999) == 1 && s.rowsBy(10000000) == 2)
  }

  test("sine: counts follow the integral of rate * (1 + amplitude * sin)") {
    val (rate, amplitude, period) = (10000.0, 0.8, 60.0)
    val s = RateFunctions.sine(rate, amplitude, 60 * second)
    def integral(t: Double) =
      rate * (t + amplitude * period / (2 * math.Pi) * (1 - math.cos(2 * math.Pi * t / period)))
    for (t <- Seq(0.5, 7.0, 15.0, 30.0, 45.0, 60.0, 90.0, 615.0))
      assert(math.abs(rows(s, 0, t) - integral(t)) <= 2, s"at $t s")
    assert(rows(s, 14.5, 15.5) > 17900 && rows(s, 44.5, 45.5) < 2100)
  }

  test("sine: amplitude 1 reaches zero and goes on") {
    val s = RateFunctions.sine(1000, 1, 10 * second)
    assert(rows(s, 7.4, 7.6) <= 2)
    assert(math.abs(rows(s, 0, 100) - 100000) <= 1)
  }

  test("stage: each stage its rate, then the first again") {
    val s = RateFunctions.stages(Seq(100.0 -> 10 * second, 0.0 -> 2 * second, 800.0 -> 5 * second))
    assert(rows(s, 0, 10) == 1000 && rows(s, 10, 12) == 0 && rows(s, 12, 17) == 4000)
    assert(rows(s, 17, 27) == 1000 && rows(s, 27, 29) == 0)
    assert(s.dueMicros(1000) == 12 * second) // the silent stage is skipped
  }

  test("random: rates within the amplitude, drawn from the seed, repeating") {
    def s(seed: Long) = RateFunctions.random(1000, 0.5, second, seed)
    val counts = (0 until 200).map(i => rows(s(7), i, i + 1))
    assert(counts.forall(n => n >= 499 && n <= 1501) && counts.distinct.size > 100)
    assert(math.abs(counts.sum / 200.0 - 1000) < 100) // five standard errors
    assert(counts == (0 until 200).map(i => rows(s(7), i, i + 1)))
    assert(counts != (0 until 200).map(i => rows(s(8), i, i + 1)))
    val cycle = RateFunctions.RandomSlots.toDouble
    assert(math.abs(rows(s(7), cycle, cycle + 50) - counts.take(50).sum) <= 2)
  }

  test("trace: one rate a period, then from its start") {
    val s = RateFunctions.trace(Array(10, 0, 30), 2 * second)
    assert(Seq(0, 2, 4, 6, 8, 10).map(t => rows(s, t, t + 2)) == Seq(20, 0, 60, 20, 0, 60))
  }

  private val schedules = for {
    n <- Gen.choose(1, 6)
    stages <-
      Gen.listOfN(n, Gen.zip(Gen.oneOf(0.0, 0.3, 1.0 / 3, 7.0, 1234.5, 2e6), Gen.choose(1L, 20 * second)))
    if stages.exists(_._1 > 0)
  } yield RateFunctions.stages(stages)

  test("rows are in order of time, and a cursor agrees with a look-up from anywhere") {
    Seeds.forEach(Gen.zip(schedules, Gen.choose(0L, 1L << 40))) { case (s, from) =>
      val cursor = s.cursor()
      val times = (from until from + 500).map(cursor.dueMicros)
      assert(times == times.sorted)
      assert(times == (from until from + 500).map(s.dueMicros))
    }
  }

  test("rowsBy counts exactly the rows that are due") {
    Seeds.forEach(Gen.zip(schedules, Gen.choose(0L, 100000L * second))) { case (s, t) =>
      val n = s.rowsBy(t)
      assert(n == 0 || s.dueMicros(n - 1) <= t)
      assert(s.dueMicros(n) > t)
    }
    assert(RateFunctions.constant(10).rowsBy(-1) == 0)
  }
}
