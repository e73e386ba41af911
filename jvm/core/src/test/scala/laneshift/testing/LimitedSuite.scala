package laneshift.testing

import java.lang.management.ManagementFactory
import java.util.concurrent.{Executors, ScheduledExecutorService, TimeUnit}

import scala.util.{Failure, Success}

import org.scalactic.source.Position
import org.scalatest.{Args, Failed, Outcome, Status}
import org.scalatest.exceptions.TestFailedException
import org.scalatest.funsuite.AnyFunSuite

/** What every suite is: none of its tests hangs for ever, and in the gate they cost no more than their [[Budgets]]. The limit is no
  * measure of speed: it is many times what the dearest test takes.
  */
abstract class LimitedSuite extends AnyFunSuite {

  override protected def withFixture(test: NoArgTest): Outcome = {
    val seconds = if (Deep.isDeep(test.tags)) LimitedSuite.DeepSeconds else LimitedSuite.GateSeconds
    TestLimit.within(s"${getClass.getSimpleName}: ${test.name}", seconds * 1000L)(super.withFixture(test))
  }

  override def run(testName: Option[String], args: Args): Status = {
    val status = super.run(testName, args)
    if (Budgets.areHeld)
      Budgets.ofGate.hold(
        getClass.getSimpleName,
        Spent.take(),
        complete = status.succeeds() && Budgets.isAll(testName, args)
      )
    status
  }
}

object LimitedSuite {
  val GateSeconds = 120L
  val DeepSeconds = 600L
}

/** Ends tests that hang: prints what every thread is at and interrupts the test; halts this JVM where that does not help. */
object TestLimit {
  private val MoreMs = 60000L

  private lazy val clock: ScheduledExecutorService = Executors.newSingleThreadScheduledExecutor { work =>
    val thread = new Thread(work, "limit of tests")
    thread.setDaemon(true)
    thread
  }

  def within(
      test: String,
      limitMs: Long,
      say: String => Unit = System.err.println(_)
  )(body: => Outcome): Outcome = {
    val thread = Thread.currentThread()
    val lock = new Object
    var (over, ended) = (false, false)
    val said = s"$test is not done within ${limitMs / 1000.0} s"
    val interrupt: Runnable = () =>
      lock.synchronized(if (!ended) {
        over = true
        say(s"$said. What all threads are at:\n$threads")
        thread.interrupt()
      })
    val halt: Runnable = () => {
      System.err.println(
        s"$said, and goes on though it was interrupted: this JVM ends. What all threads are at:\n$threads"
      )
      System.err.flush()
      Runtime.getRuntime.halt(86)
    }
    val timers = Seq(interrupt -> limitMs, halt -> (limitMs + MoreMs)).map { case (work, ms) =>
      clock.schedule(work, ms, TimeUnit.MILLISECONDS)
    }
    def end(): Boolean = lock.synchronized {
      ended = true
      timers.foreach(_.cancel(false))
      if (over) Thread.interrupted()
      over
    }
    val outcome =
      try Success(body)
      catch { case error: Throwable => Failure(error) }
    if (!end()) outcome.get
    else {
      val cause = outcome match {
        case Success(Failed(error)) => Some(error)
        case Failure(error) => Some(error)
        case _ => None
      }
      val message = s"$said; the log has what all threads were at"
      Failed(new TestFailedException(_ => Some(message), cause, Position.here))
    }
  }

  private def threads: String =
    ManagementFactory.getThreadMXBean.dumpAllThreads(true, true).toSeq.map { info =>
      val at = info.getStackTrace.map(frame => s"\n    at $frame").mkString
      val waits = Option(info.getLockInfo).fold("")(lock => s" on $lock, owned by ${info.getLockOwnerName}")
      s""""${info.getThreadName}" ${info.getThreadState}$waits$at"""
    }.mkString("\n")
}
