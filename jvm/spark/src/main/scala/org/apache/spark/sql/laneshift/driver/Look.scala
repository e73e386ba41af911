package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.{Executors, ScheduledExecutorService, TimeUnit}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.laneshift.runtime.RuntimeMetrics

/** What executors have said at one moment: their loads, and every elastic partition once, where it runs now or ran last. */
private[laneshift] final case class Look(loads: Seq[ExecutorLoad], sites: Seq[PartitionSite]) {

  /** Takes lanes off executors on which they should not be any more: off one that leaves, because Spark is about to give it up, at
    * once; off one that has too few cores only as many as were too many in the look `before`, too: a task may be short. Asks
    * executors, and throws if one does not answer.
    */
  def makeRoom(before: Look, executors: ExecutorDirectory): Unit = {
    val crowded = before.loads.map(e => e.id -> e.surplusLanes).toMap
    loads.foreach { e =>
      val lanes = if (e.leaving) e.surplusLanes else math.min(e.surplusLanes, crowded.getOrElse(e.id, 0))
      if (lanes > 0) executors.leave(sites, e.id, lanes, if (e.leaving) "is leaving" else "needs its cores")
    }
  }
}

/** Looks at all executors once a second for as long as somebody needs it, and gives what it has found to all who act on it: lanes go
  * off executors ([[Look.makeRoom]]) and executors back to Spark ([[ExecutorDemand]]), and every fifth time the [[Journal]] gets a
  * sample. Executors are asked in a turn only if somebody acts in it. Metrics read the newest look.
  *
  * There is a thread from the first elastic plan, source limit or executor on demand on until nobody needs it. On it one acts after
  * the other: what one throws does not keep the next from its turn, but who waits for an executor or for Spark delays it.
  */
private[laneshift] final class Looks(driver: DriverState, everyMs: Long) extends Logging {
  private val recent = new RuntimeMetrics.Recent(() => driver.executors.look())

  @volatile private var known = Look(Nil, Nil)

  /** At most half a second old, or else waits for executors. Once the application has ended, whose metrics Spark reports then, what
    * was known last: executors answer no more.
    */
  def newest: Look =
    if (stopped) known
    else {
      val look = recent.get
      known = look
      look
    }

  private var thread = Option.empty[ScheduledExecutorService]
  @volatile private var stopped = false

  // Only the thread uses these.
  private var turns = 0L
  private var last = Look(Nil, Nil)

  /** Somebody needs looks from now on: [[Run.needsLooks]] or [[ExecutorDemand.needsLooks]] says so by now. Waits for nobody. */
  def begin(): Unit = synchronized {
    if (thread.isEmpty && !stopped) {
      val made = Executors.newSingleThreadScheduledExecutor { work =>
        val thread = new Thread(work, "laneshift look")
        thread.setDaemon(true)
        thread
      }
      made.scheduleWithFixedDelay(() => attempt("A look")(turn()), everyMs, everyMs, TimeUnit.MILLISECONDS)
      thread = Some(made)
    }
  }

  /** The application ends. */
  def stop(): Unit = synchronized {
    stopped = true
    thread.foreach(_.shutdownNow())
  }

  /** Before a run is dropped: it is seen whole once more. Executors get the requests at once, before they are told to
    * forget the run; the look's thread waits for the answers.
    */
  private[driver] def beforeEnd(runId: String): Unit = {
    val (now, runs) = (System.currentTimeMillis(), driver.runs.all)
    val (sites, moves) = (driver.executors.askPartitions(), askMoves())
    def add(): Unit = driver.journal.add(now, QueryView.of(runs, sites()), moves(), Some(runId))
    synchronized {
      begin()
      if (!stopped) thread.foreach(_.execute(() => attempt("A run's last sample")(add())))
    }
  }

  private def askMoves() = driver.executors.askHandoffs(Journal.Moves, None)

  private def turn(): Unit = if (isNeeded()) {
    val runs = driver.runs.all
    turns += 1
    runs.foreach(run => attempt("Holding a source back")(SourceThrottle.update(run)))
    val isSampled = turns % Looks.SampledEvery == 0 && runs.exists(_.isElastic)
    val mayGiveBack = driver.demand.mayGiveBack()
    if (isSampled || mayGiveBack || runs.exists(_.wantsElsewhere)) {
      val now = System.currentTimeMillis()
      val look = newest
      attempt("Taking lanes off executors")(look.makeRoom(last, driver.executors))
      if (mayGiveBack)
        attempt("Giving executors back")(driver.demand.look(look, System.nanoTime() / 1000000L))
      if (isSampled)
        attempt("The journal")(driver.journal.add(now, QueryView.of(runs, look.sites), askMoves().apply()))
      last = look
    }
  }

  /** If not, the thread ends, once it has done what it was asked to do once. */
  private def isNeeded(): Boolean = synchronized {
    val needed = driver.demand.needsLooks || driver.runs.all.exists(_.needsLooks)
    if (!needed) {
      thread.foreach(_.shutdown())
      thread = None
    }
    needed
  }

  /** Whatever it throws, Errors too, everything else goes on: Java drops a repeated task for good once it has thrown. */
  private def attempt(what: String)(body: => Unit): Unit =
    try body
    catch {
      case _: InterruptedException if stopped => Thread.currentThread.interrupt()
      case error: Throwable => logError(s"$what has failed; the next one comes.", error)
    }
}

private[laneshift] object Looks {
  val EveryMs = 1000L

  /** So that there is a sample every five seconds. */
  private val SampledEvery = 5
}
