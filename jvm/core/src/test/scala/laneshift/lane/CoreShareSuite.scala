package laneshift.lane

import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, CyclicBarrier, TimeUnit}
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import scala.util.Random

import laneshift.testing.LimitedSuite

class CoreShareSuite extends LimitedSuite {
  private def started(count: Int)(body: Int => Unit): Seq[Thread] = {
    val threads = (0 until count).map(i => new Thread(() => body(i)))
    threads.foreach(_.start())
    threads
  }

  private def joined(threads: Seq[Thread]): Unit = threads.foreach { t =>
    t.join(30000)
    assert(!t.isAlive, t.getStackTrace.mkString("\n"))
  }

  /** The most that worked at a time, of threads that wait for nothing or for some microseconds. */
  private def mostAtWork(cores: Int, threads: Int): Int = {
    val share = new CoreShare(cores, quantumNs = 20000L)
    val atWork = new AtomicInteger
    val most = new AtomicInteger
    joined(started(threads) { i =>
      val random = new Random(i)
      CoreShare.within(share) {
        for (_ <- 0 until 300) {
          most.accumulateAndGet(atWork.incrementAndGet(), math.max)
          if (random.nextInt(4) == 0) busy(random.nextInt(30) * 1000L)
          atWork.decrementAndGet()
          CoreShare.waiting(if (random.nextInt(8) == 0) Thread.sleep(0, 200000 * random.nextInt(3)))
        }
      }
    })
    assert(share.idle == cores, "a turn is lost, or one is too many")
    most.get
  }

  private def busy(ns: Long): Unit = {
    val end = System.nanoTime() + ns
    while (System.nanoTime() < end) Thread.onSpinWait()
  }

  test("no more work at a time than there are cores") {
    for (cores <- Seq(1, 2, 3)) assert(mostAtWork(cores, 12) <= cores)
  }

  test("as many work at a time as there are cores") {
    for (cores <- Seq(1, 2, 3)) {
      val share = new CoreShare(cores)
      val together = new CyclicBarrier(cores)
      joined(started(12)(_ => CoreShare.within(share)(together.await(20, TimeUnit.SECONDS))))
      assert(share.idle == cores && !together.isBroken)
    }
  }

  test("a wait within a wait lends nothing more, and takes nothing more") {
    val share = new CoreShare(1)
    joined(started(2) { _ =>
      CoreShare.within(share)((0 until 100).foreach(_ =>
        CoreShare.waiting(CoreShare.waiting(Thread.`yield`()))
      ))
    })
    assert(share.idle == 1)
  }

  test("the turn of one that waits for rows goes to another, and it gets one again") {
    val share = new CoreShare(1)
    val waits = new CountDownLatch(1)
    val rows = new CountDownLatch(1)
    val order = new ConcurrentLinkedQueue[String]
    val first = started(1) { _ =>
      CoreShare.within(share) {
        CoreShare.waiting {
          waits.countDown()
          rows.await()
        }
        order.add("first")
      }
    }
    waits.await()
    joined(started(1) { _ =>
      CoreShare.within(share) {
        order.add("second")
        rows.countDown()
        busy(5000000L)
        order.add("second's end")
      }
    })
    joined(first)
    assert(order.toArray.toSeq == Seq("second", "second's end", "first"))
  }

  test("who gets row after row goes on for a while only, if others want its turn") {
    val share = new CoreShare(1)
    val done = Array.fill(3)(new AtomicLong)
    val threads = started(3) { i =>
      CoreShare.within(share) {
        while (done.exists(_.get < 50)) {
          busy(100000L)
          done(i).incrementAndGet()
          CoreShare.waiting(())
        }
      }
    }
    joined(threads)
    assert(done.forall(_.get >= 50))
  }

  test("one that is interrupted while it waits for a turn has none, and takes none along") {
    val share = new CoreShare(1)
    val has = new CountDownLatch(1)
    val over = new CountDownLatch(1)
    val holder = started(1)(_ => CoreShare.within(share) { has.countDown(); over.await() })
    has.await()
    val interrupted = new CountDownLatch(1)
    val waiting = started(2) { _ =>
      try CoreShare.within(share)(())
      catch { case _: InterruptedException => interrupted.countDown() }
    }
    while (!waiting.forall(isWaiting)) Thread.onSpinWait()
    waiting.head.interrupt()
    assert(interrupted.await(10, TimeUnit.SECONDS))
    assert(share.idle == 0)
    over.countDown()
    joined(holder ++ waiting)
    assert(share.idle == 1)
  }

  private def isWaiting(thread: Thread): Boolean =
    thread.getState == Thread.State.WAITING || thread.getState == Thread.State.TIMED_WAITING

  test("of those that wait for a turn only the first looks for one that is lent") {
    val share = new CoreShare(1, quantumNs = Long.MaxValue)
    val has, lends, over = new CountDownLatch(1)
    val holder = started(1) { _ =>
      CoreShare.within(share) {
        has.countDown()
        lends.await()
        CoreShare.waiting(over.await())
      }
    }
    has.await()
    val waiting = started(20)(_ =>
      try CoreShare.within(share)(())
      catch { case _: InterruptedException => () }
    )
    // Who looks waits for a time only.
    def dormant = waiting.filter(_.getState == Thread.State.WAITING)
    while (dormant.size < 19) Thread.onSpinWait()
    val first = waiting.filterNot(dormant.contains)
    assert(first.size <= 1)
    // Then it is the turn of the next to look, and of each when the one before has had a turn.
    first.foreach(_.interrupt())
    joined(first)
    lends.countDown()
    joined(waiting)
    over.countDown()
    joined(holder)
    assert(share.idle == 1)
  }

  test("other threads wait as they like") {
    assert(CoreShare.worker.isEmpty && CoreShare.waiting(3) == 3)
    assert(intercept[IllegalArgumentException](new CoreShare(0)).getMessage.contains("0 cores"))
  }
}
