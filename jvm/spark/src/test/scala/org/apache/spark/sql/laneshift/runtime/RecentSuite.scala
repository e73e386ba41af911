package org.apache.spark.sql.laneshift.runtime

import java.util.concurrent.{CountDownLatch, Executors}
import java.util.concurrent.atomic.AtomicInteger

import laneshift.testing.LimitedSuite

class RecentSuite extends LimitedSuite {
  private val Second = 1000000000L

  test("what took long to read is as recent as what did not") {
    var now = 0L
    var reads = 0
    val recent = new RuntimeMetrics.Recent[Int](
      () => {
        now += 10 * Second
        reads += 1
        reads
      },
      () => now
    )
    assert(Seq.fill(22)(recent.get) == Seq.fill(22)(1))
    now += Second
    assert(Seq.fill(22)(recent.get) == Seq.fill(22)(2))
  }

  test("who reads meanwhile gets the same") {
    val reads = new AtomicInteger
    val (began, go) = (new CountDownLatch(1), new CountDownLatch(1))
    val recent = new RuntimeMetrics.Recent[Int](
      () => {
        began.countDown()
        go.await()
        reads.incrementAndGet()
      },
      () => 0L
    )
    val pool = Executors.newFixedThreadPool(4)
    try {
      val values = Seq.fill(4)(pool.submit(() => recent.get))
      began.await()
      go.countDown()
      assert(values.map(_.get) == Seq.fill(4)(1))
    } finally pool.shutdownNow()
  }

  test("a reading that failed is not kept") {
    var reads = 0
    val recent = new RuntimeMetrics.Recent[Int](
      () => { reads += 1; if (reads == 1) throw new IllegalStateException else reads },
      () => 0L
    )
    intercept[IllegalStateException](recent.get)
    assert(recent.get == 2)
  }
}
