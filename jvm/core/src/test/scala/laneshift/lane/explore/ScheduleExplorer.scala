package laneshift.lane.explore

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

/** A schedule that broke an invariant. */
final case class Broken(seed: Long, what: Throwable) {

  def story: String = s"${Broken.story(seed)}\nRepeat with: make prove SEED=$seed SCHEDULES=1"
}

object Broken {

  /** Runs a schedule again and tells each step. */
  def story(seed: Long): String = {
    val trace = new Trace
    try new Schedule(seed, trace).run()
    catch { case NonFatal(e) => trace.lines += s"     => $e" }
    trace.lines.mkString("\n")
  }
}

/** Explores what can happen in a partition: schedule number i has the seed `first + i`, and nothing else decides it. */
object ScheduleExplorer {

  def explore(seed: Long): Option[Broken] =
    try {
      new Schedule(seed).run()
      None
    } catch { case NonFatal(e) => Some(Broken(seed, e)) }

  /** The first broken one of `count` schedules. */
  def firstBroken(first: Long, count: Long): Option[Broken] =
    Iterator.iterate(first)(_ + 1).takeWhile(_ < first + count).flatMap(explore).nextOption()

  /** `make prove`: SEED and SCHEDULES in the environment. */
  def main(args: Array[String]): Unit = {
    def setting(name: String): Option[String] = sys.env.get(name).filter(_.nonEmpty)
    val first = setting("SEED").fold(System.nanoTime() & 0xffffffffL)(_.toLong)
    val count = setting("SCHEDULES").fold(1000000L)(_.toLong)
    val run = new Exploration(first, count)
    run.run()
    run.broken.asScala.toSeq.sortBy(_.seed).take(10).foreach(b => println(s"seed ${b.seed}: ${b.what}"))
    if (!run.broken.isEmpty) {
      println(run.broken.peek.story)
      sys.exit(1)
    }
    if (count == 1) println(Broken.story(first))
  }
}

/** Many schedules on all cores, with a line every ten seconds. */
private final class Exploration(first: Long, count: Long) {
  val broken = new ConcurrentLinkedQueue[Broken]
  private val (next, done, steps, commits) = (new AtomicLong, new AtomicLong, new AtomicLong, new AtomicLong)
  private val start = System.nanoTime()

  private def report(): Unit = {
    val seconds = (System.nanoTime() - start) / 1e9
    println(
      f"${done.get}%,d of $count%,d schedules, ${steps.get}%,d steps, ${commits.get}%,d commits, " +
        f"${broken.size}%,d violations, $seconds%.0f s, ${done.get / seconds}%,.0f schedules/s"
    )
  }

  private def work(): Unit = {
    var i = next.getAndIncrement()
    while (i < count) {
      val schedule = new Schedule(first + i)
      try schedule.run()
      catch { case NonFatal(e) => broken.add(Broken(first + i, e)) }
      steps.addAndGet(schedule.steps)
      commits.addAndGet(schedule.commits.toLong)
      done.incrementAndGet()
      i = next.getAndIncrement()
    }
  }

  def run(): Unit = {
    println(s"Exploring $count schedules from seed $first")
    val workers = Seq.fill(Runtime.getRuntime.availableProcessors)(new Thread(() => work()))
    workers.foreach(_.start())
    workers.foreach { worker =>
      while (worker.isAlive) {
        worker.join(10000L)
        if (worker.isAlive) report()
      }
    }
    report()
  }
}
