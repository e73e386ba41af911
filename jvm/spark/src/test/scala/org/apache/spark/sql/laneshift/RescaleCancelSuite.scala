package org.apache.spark.sql.laneshift

import java.nio.file.{Files, Path}
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit.SECONDS

import org.apache.hadoop.fs.{Path => HadoopPath}

import org.apache.spark.sql.laneshift.rescale.{LiveRescale, RescaleState, TakeOver}

import laneshift.testing.LimitedSuite

/** Whenever a rescale is given up, nothing of it stays in the checkpoint, and the next one is built in peace. */
class RescaleCancelSuite extends LimitedSuite with RescaleSession {
  import RescaleCancelSuite._

  private def isThere(at: Path) = Files.exists(at.resolve(Folder))

  private def isCancelled(run: RescaleRun) = run.rescales.last.state == RescaleState.Cancelled

  /** Gone while the query runs, and for good. */
  private def awaitGone(run: RescaleRun, at: Path): Unit = {
    Patience.until(run.query)(!isThere(at))
    run.query.stop()
    Patience.until(run.query)(Leftovers.threads.isEmpty)
    assert(!isThere(at))
  }

  test("an interrupt that finds it clearing away does not stop that") {
    elastic { (run, at) =>
      val clearing, cancelled = new CountDownLatch(1)
      hooked(
        deletes = path =>
          if (isRescale(Thread.currentThread) && path.toString.contains(Folder) && isCancelled(run)) {
            clearing.countDown()
            cancelled.await(30, SECONDS)
          },
        passed = step => if (step == "jobs cancelled") assert(clearing.await(30, SECONDS))
      ) {
        begin(run)
        assert(run.rescales.last.cancel())
        cancelled.countDown()
        awaitGone(run, at)
      }
    }
  }

  test("a task that goes on although it was cancelled leaves nothing") {
    elastic { (run, at) =>
      val gate = new Gate
      hooked(creates =
        path => if (path.toString.contains(s"$Folder/") && path.toString.contains("/state/")) gate.pass()
      ) {
        begin(run)
        gate.awaitFirst()
        assert(run.rescales.last.cancel())
        Thread.sleep(500)
        gate.open()
        awaitGone(run, at)
      }
    }
  }

  for (stops <- Seq(false, true))
    test(s"a batch that records for one that was cancelled leaves nothing${if (stops) ", if it is the last"
      else ""}") {
      elastic { (run, at) =>
        val gate = new Gate
        hooked(creates = path => if (path.toString.contains("/records/")) gate.pass()) {
          run.add(chunks.head)
          run.await()
          run.ask(5)
          run.add(chunks(1))
          gate.awaitFirst()
          assert(run.rescales.last.cancel())
          Patience.until(run.query)(!isThere(at))
          // By then nobody looks whether it comes again.
          Thread.sleep(1000)
          gate.open()
          run.await()
          if (stops) run.query.stop()
          else {
            run.add(chunks(2))
            run.await()
          }
          awaitGone(run, at)
        }
      }
    }

  test("one that is asked for while the last is cleared away has its own files") {
    elastic { (run, at) =>
      val gate = new Gate
      hooked(deletes =
        path => if (isRescale(Thread.currentThread) && path.toString.contains(Folder)) gate.pass()
      ) {
        begin(run)
        val first = run.rescales.last
        Patience.until(run.query)(first.state == RescaleState.Ready)
        assert(first.cancel())
        gate.awaitFirst()
        run.ask(4)
        run.add(chunks(2))
        run.await()
        Patience.until(run.query)(run.rescales.last.state == RescaleState.Ready)
        gate.open()
        Patience.until(run.query)(Leftovers.threads.size == 1)
        run.add(chunks(3))
        run.await()
        run.takeOver(chunks(4))
        val state = MicroBatchRun.stateRows(spark, run.query, at)
        assert(withoutPartition(state) == withoutPartition(stock(5).state))
        awaitGone(run, at)
      }
    }
  }

  private def hooked(
      creates: HadoopPath => Unit = _ => (),
      deletes: HadoopPath => Unit = _ => (),
      passed: String => Unit = _ => ()
  )(body: => Unit): Unit = {
    WatchedFileSystem.creates = creates
    WatchedFileSystem.deletes = deletes
    TakeOver.passed = passed
    try body
    finally {
      WatchedFileSystem.creates = _ => ()
      WatchedFileSystem.deletes = _ => ()
      TakeOver.passed = _ => ()
    }
  }
}

private object RescaleCancelSuite {
  private val Folder = "laneshift-rescale"

  private def isRescale(thread: Thread) = thread.getName.startsWith(LiveRescale.JobGroup)

  /** Holds whoever passes it, interrupted or not, until it is opened. */
  private final class Gate {
    private val reached, opened = new CountDownLatch(1)

    def pass(): Unit = {
      reached.countDown()
      var waits = true
      while (waits)
        try {
          opened.await(60, SECONDS)
          waits = false
        } catch { case _: InterruptedException => () }
    }

    def awaitFirst(): Unit = assert(reached.await(60, SECONDS), "nobody came")
    def open(): Unit = opened.countDown()
  }
}
