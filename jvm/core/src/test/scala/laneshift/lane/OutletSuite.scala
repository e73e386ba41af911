package laneshift.lane

import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}

import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Seconds, Span}

import laneshift.testing.LimitedSuite

class OutletSuite extends LimitedSuite with Eventually {
  implicit override val patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds), Span(5, Millis))

  private def outlet(limit: Long) = new Outlet[Item](limit, () => new ArrayBlock(3))

  /** One row, of as many bytes as the text has letters; the letter tells which row it is. */
  private def item(text: String): Item = Item(text.head.toInt, 0L, text.length.toLong)

  private def block(text: String): ArrayBlock = {
    val block = new ArrayBlock(1)
    block.append(item(text), 0)
    block
  }

  /** The rows of the next block, each by its letter and size. */
  private def take(from: Outlet[Item], pollMs: Long = 1L, whileIdle: () => Unit = () => ()): Option[String] =
    from.take(pollMs, whileIdle).map { taken =>
      val rows = taken.asInstanceOf[ArrayBlock]
      (0 until rows.size).map(rows.itemAt).map(i => i.key.toChar.toString * i.bytes.toInt).mkString(" ")
    }

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
    Seq("a", "bb", "c").foreach(text => out.put(block(text)))
    out.producerDone()
    out.producerDone()
    assert(Seq.fill(4)(take(out)) == Seq(Some("a"), Some("bb"), Some("c"), None))
    assert(take(out).isEmpty)
  }

  test("a full outlet pushes back until the emitter has taken enough") {
    val out = outlet(4)
    out.addProducer()
    out.put(block("aaa"))
    val (thread, error) = inThread(out.put(block("dd")))
    waits(thread)
    assert(take(out).contains("aaa"))
    ended(thread)
    assert(error.get == null && take(out).contains("dd"))
  }

  test("more is wanted when the emitter waits and everything has been taken") {
    val out = outlet(4)
    out.addProducer()
    out.put(block("aaa"))
    val (lane, failed) = inThread(out.awaitWanted())
    waits(lane)
    assert(take(out).contains("aaa"))
    waits(lane)
    val (emitter, _) = inThread(take(out, 60000L))
    ended(lane)
    assert(failed.get == null)
    out.put(block("d"))
    ended(emitter)
    val (late, stopped) = inThread(out.awaitWanted())
    waits(late)
    out.fail(new IllegalStateException("the task is over"))
    ended(late)
    assert(stopped.get.isInstanceOf[PartitionStopped])
  }

  test("rows one by one fill blocks, behind what is there; the emitter takes one that is not full, too") {
    val out = outlet(8)
    out.addProducer()
    Seq("a", "b").foreach(text => out.put(item(text), text.length.toLong))
    out.put(block("c"))
    assert(take(out).contains("a b"))
    Seq("d", "e", "f").foreach(text => out.put(item(text), text.length.toLong))
    assert(take(out).contains("c"), "a full block takes no more rows")
    assert(take(out).contains("d e f"))
    val (emitter, _) = inThread(assert(take(out, 60000L).contains("g")))
    waits(emitter)
    out.put(item("g"), 1L)
    ended(emitter)
    out.put(item("aaaaaaaa"), 8L)
    val (thread, error) = inThread(out.put(item("b"), 1L))
    waits(thread)
    assert(take(out).contains("aaaaaaaa"))
    ended(thread)
    assert(error.get == null && take(out).contains("b"))
  }

  test("a block larger than the bound passes alone") {
    val out = outlet(2)
    out.addProducer()
    out.put(block("aaaaaa"))
    val (thread, _) = inThread(out.put(block("x")))
    waits(thread)
    assert(take(out).contains("aaaaaa"))
    ended(thread)
    assert(take(out).contains("x"))
  }

  test("an idle emitter looks around; what that throws ends its wait") {
    val out = outlet(4)
    out.addProducer()
    val looks = new AtomicInteger
    val killed = intercept[IllegalStateException](
      take(out, 1L, () => if (looks.incrementAndGet() == 3) throw new IllegalStateException("killed"))
    )
    assert(killed.getMessage == "killed" && looks.get == 3)
  }

  test("the end of the last lane wakes the emitter") {
    val out = outlet(4)
    out.addProducer()
    val taken = new AtomicReference[Option[String]]
    val (thread, error) = inThread(taken.set(take(out, 600000L)))
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
    out.put(block("aaaa"))
    val (lane, laneError) = inThread(out.put(block("e")))
    waits(lane)
    val cause = new IllegalStateException("boom")
    out.fail(cause)
    out.fail(new IllegalStateException("later"))
    ended(lane)
    assert(laneError.get.isInstanceOf[PartitionStopped] && laneError.get.getCause == cause)
    assert(intercept[IllegalStateException](take(out)) eq cause)
    assert(intercept[PartitionStopped](out.put(block("f"))).getCause == cause)
    val empty = outlet(4)
    empty.addProducer()
    val (emitter, emitterError) = inThread(take(empty, 600000L))
    waits(emitter)
    empty.fail(cause)
    ended(emitter)
    assert(emitterError.get eq cause)
  }

  test("an interrupt ends the wait of a lane") {
    val out = outlet(4)
    out.addProducer()
    out.put(block("aaaa"))
    val (lane, error) = inThread(out.put(block("e")))
    waits(lane)
    lane.interrupt()
    ended(lane)
    assert(error.get.isInstanceOf[InterruptedException])
  }
}
