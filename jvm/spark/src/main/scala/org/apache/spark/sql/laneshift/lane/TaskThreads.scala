package org.apache.spark.sql.laneshift.lane

import java.lang.management.ManagementFactory
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.{AtomicReference, LongAdder}

import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.laneshift.conf.LaneshiftConf
import org.apache.spark.util.UninterruptibleThread

import laneshift.lane.{LaneNotStarted, PartitionStopped}

/** The threads of one partition or of all those of a task. All of them end before the task does, whatever happens (design fact
  * 17); the first of them that fails takes the others along, and the task. Made on the thread that computes it: every thread has
  * its class loader, whoever asks for more lanes later.
  *
  * @param wakeAll whoever of them waits for what will not come hears of it; called on any thread, more than once
  * @param ending the task has succeeded, and takes no more outputs: lets threads come to what has to be done all the same. Called
  *   on the task's own thread
  */
private[laneshift] final class TaskThreads(
    of: String,
    task: TaskContext,
    wakeAll: Throwable => Unit,
    ending: () => Unit = () => ()
) extends Logging {
  private val loader = Thread.currentThread().getContextClassLoader
  private val taskThread = Thread.currentThread().getName
  private val cpuNs = new LongAdder
  private val started = new ConcurrentLinkedQueue[Thread]
  private val stopped = new AtomicReference[Throwable]

  /** Why they end or have ended, or null. */
  def failure: Throwable = stopped.get

  /** The task ends after all threads. Has to be called again after registering anything with the task that frees what they use:
    * listeners run last in, first out.
    */
  def endBeforeTask(): Unit = {
    task.addTaskFailureListener((_: TaskContext, error: Throwable) => stop(error))
    task.addTaskCompletionListener[Unit] { _ =>
      if (failure == null) ending()
      stop(new InterruptedException("the task is over"))
    }
  }

  /** One of them failed: the task fails with its cause. */
  def fail(error: Throwable): Unit = error match {
    case _: PartitionStopped => ()
    case _ => if (stopped.compareAndSet(null, error)) wakeAll(error)
  }

  /** Runs `work` on a thread of its own, and tells of what it throws. */
  def start(role: String)(work: => Unit): Unit = {
    val name = s"laneshift $role of $of ($taskThread)"
    val thread = TaskThreads.newThread(
      () =>
        try work
        catch { case error: Throwable => fail(error) }
        finally cpuNs.add(TaskThreads.cpuNs()),
      name
    )
    thread.setDaemon(true)
    thread.setContextClassLoader(loader)
    started.add(thread)
    try thread.start()
    catch {
      // Out of native threads is an Error, and yet no reason to end the process.
      case cause: Throwable =>
        started.remove(thread)
        throw new LaneNotStarted(
          s"The $role of $of cannot start: ${cause.getMessage}. Let the process have more threads, or " +
            s"ask for fewer lanes (${LaneshiftConf.Lanes.key}, ${LaneshiftConf.LanesPerExecutor.key}).",
          cause
        )
    }
  }

  /** Waits for every thread to end by itself. */
  def join(): Unit = {
    started.forEach(_.join())
    LaneCpu.add(task, cpuNs.sumThenReset())
  }

  /** Ends every thread and waits for it. Nothing that threads use may be freed before. */
  private def stop(cause: Throwable): Unit = {
    stopped.compareAndSet(null, cause)
    wakeAll(cause)
    // One of our own threads comes here if the task is over already: the task's thread then waits for it and the others.
    if (!started.contains(Thread.currentThread())) {
      // Whoever can end by itself may: an interrupt in the middle of loading a class can spoil it for all later tasks.
      val patience = System.nanoTime() + TaskThreads.PatienceNs
      val all = started.asScala.toSeq
      val interrupted = all.map(join(_, patience)) ++ { all.foreach(_.interrupt()); all.map(joinFully) }
      if (interrupted.contains(true)) Thread.currentThread().interrupt()
    }
  }

  /** Waits for the thread until `deadline`; true if this thread was interrupted meanwhile. */
  private def join(thread: Thread, deadline: Long): Boolean = {
    var interrupted = false
    while (thread.isAlive && System.nanoTime() < deadline)
      try thread.join(1L + (deadline - System.nanoTime()) / 1000000L)
      catch { case _: InterruptedException => interrupted = true }
    interrupted
  }

  /** Waits for the thread whatever it takes; true if this thread was interrupted meanwhile. */
  private def joinFully(thread: Thread): Boolean = {
    var interrupted = false
    while (thread.isAlive) {
      interrupted |= join(thread, System.nanoTime() + TaskThreads.WarningNs)
      if (thread.isAlive) {
        val where = thread.getStackTrace.take(8).mkString("\n  at ", "\n  at ", "")
        logWarning(s"Still waiting for '${thread.getName}' to end; the task cannot end before it.$where")
        thread.interrupt()
      }
    }
    interrupted
  }
}

private[laneshift] object TaskThreads {

  /** What the current thread has used since it began; 0 where that is not known. Tests say it themselves. */
  @volatile private[laneshift] var cpuNs: () => Long = () => {
    val threads = ManagementFactory.getThreadMXBean
    if (threads.isCurrentThreadCpuTimeSupported) threads.getCurrentThreadCpuTime else 0L
  }

  /** How long threads that are to end have before they are interrupted, and before there is a warning. */
  private val PatienceNs = 1000000000L
  private val WarningNs = 10000000000L

  /** Of the kind that Spark's own tasks run on: its Kafka source complains at each row of any other. Tests put threads here that
    * do not start.
    */
  @volatile private[laneshift] var newThread: (Runnable, String) => Thread = new UninterruptibleThread(_, _)
}
