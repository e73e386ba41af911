package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.{CountDownLatch, TimeUnit}

import laneshift.testing.LimitedSuite

class RepeatingSuite extends LimitedSuite {
  private def errors = Iterator(
    new NoClassDefFoundError("a"),
    new StackOverflowError,
    new OutOfMemoryError("not really"),
    new InterruptedException,
    new IllegalStateException("b")
  )

  test("a turn that throws is not the last one") {
    val left = errors
    val after = new CountDownLatch(3)
    val repeating = new Repeating("laneshift test", 1L)(
      if (left.hasNext) throw left.next() else after.countDown()
    )
    repeating.start()
    try assert(after.await(60, TimeUnit.SECONDS))
    finally repeating.stop()
  }

  test("other work that throws leaves the turns alone; after the end there is neither") {
    val turns = new CountDownLatch(3)
    val once = new CountDownLatch(1)
    val repeating = new Repeating("laneshift test", 1L)(turns.countDown())
    errors.foreach(error => repeating.once(throw error))
    repeating.once(once.countDown())
    repeating.start()
    assert(once.await(60, TimeUnit.SECONDS) && turns.await(60, TimeUnit.SECONDS))
    repeating.stop()
    repeating.once(fail("it was stopped"))
  }
}
