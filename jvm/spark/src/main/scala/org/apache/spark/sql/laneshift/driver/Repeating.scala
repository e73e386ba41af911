package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.{Executors => Threads, TimeUnit}

import org.apache.spark.internal.Logging

/** A thread that takes `turn` again and again, and other work in between, until it is stopped. Whatever one of them throws, Errors
  * too, the next one comes: Java's executor services drop a repeated task for good once it has thrown.
  */
private[driver] final class Repeating(name: String, everyMs: Long)(turn: => Unit) extends Logging {
  private val thread = Threads.newSingleThreadScheduledExecutor { work =>
    val thread = new Thread(work, name)
    thread.setDaemon(true)
    thread
  }

  def start(): Unit = {
    thread.scheduleWithFixedDelay(guarded(turn), everyMs, everyMs, TimeUnit.MILLISECONDS)
    ()
  }

  /** Does `work` once, on the same thread; not if it was stopped. */
  def once(work: => Unit): Unit =
    try thread.execute(guarded(work))
    catch { case _: java.util.concurrent.RejectedExecutionException => }

  /** Ends after what it does now and what it was asked to do once; may be called in a turn. */
  def end(): Unit = thread.shutdown()

  def stop(): Unit = { thread.shutdownNow(); () }

  private def guarded(work: => Unit): Runnable = () =>
    try work
    catch {
      case _: InterruptedException if thread.isShutdown =>
      case error: Throwable => logError(s"A turn of the thread '$name' failed; its next one comes.", error)
    }
}
