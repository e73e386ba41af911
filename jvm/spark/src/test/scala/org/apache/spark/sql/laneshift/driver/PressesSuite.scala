package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.CompletableFuture

import org.apache.spark.sql.laneshift.runtime.PartitionPressed
import org.apache.spark.sql.laneshift.spec.OperatorKey

import laneshift.testing.LimitedSuite

class PressesSuite extends LimitedSuite {
  private var nowMs = 1000L
  private val presses = new Presses(() => nowMs)

  private def press(runId: String, index: Int): PartitionPressed =
    PartitionPressed(OperatorKey("query", runId, 0L), index, 100000000L, 10L, 9L, 8L, 7L, 6L)

  private def known(autoscaler: String, runId: String = "", after: Long = 0L) =
    presses.await(autoscaler, runId, after, 0.0)

  test("who waits is told of what has come since, of its run only and while it is fresh") {
    assert(known("a") == ((0L, Nil)))
    presses.heard(press("one", 0))
    presses.heard(press("two", 1))
    presses.heard(press("one", 0))
    val (seq, heard) = known("a")
    assert(seq == 3L && heard.map(h => (h.press.key.runId, h.press.index)).toSet == Set(
      "one" -> 0,
      "two" -> 1
    ))
    assert(known("b", "one")._2.map(_.press.index) == Seq(0))
    assert(known("b", "three")._2.isEmpty)
    assert(known("a", after = seq)._2.isEmpty)
    nowMs += 501L
    assert(known("c")._2.isEmpty, "old news")
  }

  test("who waits in vain is told so after the seconds that it would wait") {
    val minute = 60000000000L
    val times = Iterator(0L, minute - 1L, minute - 1L, minute)
    val presses = new Presses(() => nowMs, () => times.next())
    assert(presses.await("a", "", 0L, 60.0) == ((0L, Nil)) && !times.hasNext)
  }

  test("an autoscaler's newer call and the application's end end one that waits; another's does not") {
    def waiting(autoscaler: String) = {
      val begun = new CompletableFuture[Unit]
      // On threads of their own: the common pool has only one on two cores, since Java 25.
      val end = CompletableFuture.supplyAsync(
        () => {
          begun.complete(())
          presses.await(autoscaler, "", 100L, 60.0)
        },
        new Thread(_).start()
      )
      begun.get()
      // It waits once its call is the newest: one that comes too early would be ended by it.
      while (!presses.isAwaitedBy(autoscaler)) Thread.onSpinWait()
      end
    }
    val (one, other) = (waiting("one"), waiting("other"))
    known("one")
    assert(one.get()._2.isEmpty)
    assert(!other.isDone)
    presses.stop()
    assert(other.get()._2.isEmpty)
  }
}
