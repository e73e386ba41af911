package laneshift.lane

import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}

import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Seconds, Span}

import laneshift.testing.LimitedSuite

class OutletSuite extends LimitedSuite with Eventually {
  implicit override val patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds), Span(5, Millis))

  private def outlet(limit: Long) = new Outlet[String](limit, _.length.toLong)

  private def inThread(work: => Unit): (Thread, AtomicReference[Throwable]) = {
    val error = new AtomicReference[Throwable]
    val thread = new Thread(() =>
      try work
      catch { case e: Throwable => error.set(e) }
    )
    thread.setDaemon(true)
    thread.start()
    (thread, error)
  }

  private def waits(thread: Thread): Unit =
    eventually(assert(Set(Thread.State.WAITING, Thread.State.TIMED_WAITING)(thread.getState)))

  private def ended(thread: Thread): Unit = {
    thread.join(60000L)
    assert(!thread.isAlive)
  }

  test("blocks come first in, first out, over all lanes, and None once every lane is done") {
    val out = outlet(100)
    out.addProducer()
    out.addProducer()
    Seq("a", "bb", "c").foreach(out.put)
    out.producerDone()
    out.producerDone()
    assert(Seq.fill(4)(out.take(1L, () => ())) == Seq(Some("a"), Some("bb"), Some("c"), None))
    assert(out.take(1L, () => ()).isEmpty)
  }

  test("a full outlet pushes back until the emitter has taken enough") {
    val out = outlet(4)
    out.addProducer()
    out.put("abc")
    val (thread, error) = inThread(out.put("de"))
    waits(thread)
    assert(out.take(1L, () => ()).contains("abc"))
    ended(thread)
    assert(error.get == null && out.take(1L, () => ()).contains("de"))
  }

  test("more is wanted when the emitter waits and everything has been taken") {
    val out = outlet(4)
    out.addProducer()
    out.put("abc")
    val (lane, failed) = inThread(out.awaitWanted())
    waits(lane)
    assert(out.take(1L, () => ()).contains("abc"))
    waits(lane)
    val (emitter, _) = inThread(out.take(60000L, () => ()))
    ended(lane)
    assert(failed.get == null)
    out.put("d")
    ended(emitter)
    val (late, stopped) = inThread(out.awaitWanted())
    waits(late)
    out.fail(new IllegalStateException("the task is over"))
    ended(late)
    assert(stopped.get.isInstanceOf[PartitionStopped])
  }

  test("a block larger than the bound passes alone") {
    val out = outlet(2)
    out.addProducer()
    out.put("abcdef")
    val (thread, _) = inThread(out.put("x"))
    waits(thread)
    assert(out.take(1L, () => ()).contains("abcdef"))
    ended(thread)
    assert(out.take(1L, () => ()).contains("x"))
  }

  test("an idle emitter looks around; what that throws ends its wait") {
    val out = outlet(4)
    out.addProducer()
    val looks = new AtomicInteger
    val killed = intercept[IllegalStateException](
      out.take(1L, () => if (looks.incrementAndGet() == 3) throw new IllegalStateException("killed"))
    )
    assert(killed.getMessage == "killed" && looks.get == 3)
  }

  test("the end of the last lane wakes the emitter") {
    val out = outlet(4)
    out.addProducer()
    val taken = new AtomicReference[Option[String]]
    val (thread, error) = inThread(taken.set(out.take(600000L, () => ())))
    waits(thread)
    out.producerDone()
    ended(thread)
    assert(error.get == null && taken.get == None)
  }

  test(
    "a failure wakes the emitter with the cause itself and waiting lanes with what wraps it; the first counts"
  ) {
    val out = outlet(4)
    out.addProducer()
    out.put("abcd")
    val (lane, laneError) = inThread(out.put("e"))
    waits(lane)
    val cause = new IllegalStateException("boom")
    out.fail(cause)
    out.fail(new IllegalStateException("later"))
    ended(lane)
    assert(laneError.get.isInstanceOf[PartitionStopped] && laneError.get.getCause == cause)
    assert(intercept[IllegalStateException](out.take(1L, () => ())) eq cause)
    assert(intercept[PartitionStopped](out.put("f")).getCause == cause)
    val empty = outlet(4)
    empty.addProducer()
    val (emitter, emitterError) = inThread(empty.take(600000L, () => ()))
    waits(emitter)
    empty.fail(cause)
    ended(emitter)
    assert(emitterError.get eq cause)
  }

  test("an interrupt ends the wait of a lane") {
    val out = outlet(4)
    out.addProducer()
    out.put("abcd")
    val (lane, error) = inThread(out.put("e"))
    waits(lane)
    lane.interrupt()
    ended(lane)
    assert(error.get.isInstanceOf[InterruptedException])
  }
}
