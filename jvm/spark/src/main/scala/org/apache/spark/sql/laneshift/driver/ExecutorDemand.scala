package org.apache.spark.sql.laneshift.driver

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

/** How an autoscaler's demand for executors stands.
  *
  * @param most the most that there may be; 0 if the application has none on demand
  * @param why why none can be asked for by this autoscaler now
  * @param there those that have registered (count)
  * @param requested how many Spark was asked for in all
  * @param atStart how many the application has without an autoscaler
  * @param asked ids of those that may be given back
  */
final case class DemandView(
    most: Int,
    restMs: Long,
    why: Option[String],
    there: Int,
    requested: Int,
    atStart: Int,
    asked: Seq[String]
)

/** A demand that cannot be: which of the options is wrong, and what there is. */
final case class WrongDemand(most: Int, there: Int, dynamicAllocation: Boolean) extends RuntimeException

/** Executors on demand (decisions/0015): asks Spark for executors and gives them back, as one autoscaler wants it.
  *
  *   - Given back is only an executor that was asked for here, on which Spark runs no task, which has no elastic partition, nothing
  *     that Spark may still read, and no lane, at two looks in a row. Spark itself refuses if a task has begun in between.
  *   - From the moment on at which it is to go it counts as leaving: nobody gets lanes there, and [[Look.makeRoom]] takes those
  *     away that there are. If Spark uses it, it is closed: no more tasks begin there, so that it goes once those that run have ended. It
  *     stays if the others had not had slots for all tasks of the last half minute, and if it has a cached block.
  *   - Those that were there before the first request stay, whoever they are replaced by.
  *   - Who owns the demand is whose claim holds. If nobody does, executors without work for the time of rest go all the same, and
  *     lanes stay where they are.
  *
  * @param isDriving whether an autoscaler's claim holds
  * @param say tells the driver's log and the tab
  */
private[laneshift] final class ExecutorDemand(
    executors: ExecutorDirectory,
    isDriving: String => Boolean,
    say: String => Unit,
    cluster: ClusterExecutors = new SparkExecutors
) extends Logging {
  @volatile private var owner = Option.empty[String]

  /** Executors that are never given back, and how many there are to be of them: not known as long as none was asked for. */
  private var base = Set.empty[String]
  private var baseCount = Option.empty[Int]
  private var ours = Set.empty[String]

  /** How many Spark was asked for, once it was. */
  private var requested = Option.empty[Int]

  /** Executors that are to go: at how many looks in a row nothing was on them. */
  private var going = Map.empty[String, Int]

  /** Those of them on which Spark begins no more tasks: they do not come back. */
  private var closed = Set.empty[String]

  /** How many tasks ran at each of the last looks. */
  private val running = mutable.Queue.empty[Int]

  /** Executors that Spark is ending. */
  private var gone = Set.empty[String]

  /** Since when (ms) nothing is on executors of which no autoscaler says whether it needs them. */
  private var idleSince = Map.empty[String, Long]

  /** Says how many executors there are to be, 0 for as many as before, and which ones are not needed any more. Who does not drive a
    * query (a dry run) only looks.
    *
    * @param most the most that there may be; 0 for what the application's configuration says
    * @throws WrongDemand if there cannot be such a demand
    */
  def turn(autoscaler: String, most: Int, total: Int, giveBack: Seq[String]): DemandView = synchronized {
    val limit = if (most > 0) most else cluster.most
    if (limit == 0) DemandView(0, cluster.restMs, None, 0, 0, 0, Nil)
    else {
      if (cluster.dynamicAllocation) throw WrongDemand(limit, 0, dynamicAllocation = true)
      val why = cluster.impossible.orElse(others(autoscaler).map(_ =>
        "another autoscaler of this application asks for executors"
      ))
      if (why.isEmpty) {
        learn()
        if (!owner.contains(autoscaler)) begin(autoscaler, limit)
        if (owner.contains(autoscaler)) {
          ask(math.min(total, limit))
          giveBack.filter(id => ours(id) && !going.contains(id)).foreach(letGo(_, "has not been needed"))
        }
      }
      view(limit, why)
    }
  }

  private def others(autoscaler: String): Option[String] = owner.filter(o => o != autoscaler && isDriving(o))

  private def begin(autoscaler: String, limit: Int): Unit = {
    if (limit < atStart) throw WrongDemand(limit, atStart, dynamicAllocation = false)
    if (isDriving(autoscaler)) {
      owner = Some(autoscaler)
      idleSince = Map.empty
    }
  }

  private def view(most: Int, why: Option[String]): DemandView =
    DemandView(
      most,
      cluster.restMs,
      why,
      there,
      target,
      atStart,
      (ours -- going.keySet).toSeq.sortBy(ExecutorDemand.age)
    )

  private def there: Int = base.size + ours.size

  private def atStart: Int = math.max(base.size, baseCount.getOrElse(0))

  private def target: Int = requested.getOrElse(math.max(there, atStart))

  /** Who is there now, and which of them are ours: those beyond the ones that the application had without us. */
  private def learn(): Unit = {
    val ids = cluster.ids.toSet
    if (baseCount.isEmpty) baseCount = cluster.atStart
    base &= ids
    ours &= ids
    gone &= ids
    closed &= ids
    going = going.filter { case (id, _) => ids(id) }
    (ids -- base -- ours -- gone).toSeq.sortBy(ExecutorDemand.age).foreach { id =>
      if (baseCount.forall(base.size < _)) base += id else ours += id
    }
    show()
  }

  private def show(): Unit = executors.demanded(ours, going.keySet)

  private def ask(total: Int): Unit = {
    val before = target
    // Fewer than there are would be a matter of giving back.
    val wanted =
      if (total == 0 || total >= before) math.max(total, before)
      else math.min(before, Seq(total, there, atStart).max)
    if (wanted != before) {
      if (baseCount.isEmpty) baseCount = Some(base.size)
      if (cluster.request(wanted)) {
        requested = Some(wanted)
        logInfo(s"laneshift has asked Spark for $wanted executors in all; $there are there")
      } else logWarning(s"The cluster manager did not take a request for $wanted executors in all.")
    }
  }

  private def letGo(id: String, why: String): Unit = {
    going += id -> 0
    show()
    logInfo(s"Executor $id $why: it is to go once nothing is on it")
  }

  /** From an autoscaler's first demand on: executors may come late. Waits for nobody. */
  def needsLooks: Boolean = owner.nonEmpty

  /** Whether there are executors that were asked for, before each look: whether it is of use here. */
  private[driver] def mayGiveBack(): Boolean = needsLooks && synchronized {
    learn()
    ours.nonEmpty
  }

  /** Who is to go goes when nothing is on it. Executors were asked before: an autoscaler's turn does not wait for them.
    *
    * @param nowMs goes on whatever the clock is set to
    */
  private[driver] def look(look: Look, nowMs: Long): Unit = synchronized {
    running.enqueue(look.loads.map(_.activeTasks).sum)
    if (running.size > ExecutorDemand.Remembered) running.dequeue()
    look.loads.filter(e => ours(e.id)).foreach(act(_, look.sites, nowMs))
  }

  private def act(load: ExecutorLoad, sites: Seq[PartitionSite], nowMs: Long): Unit = {
    val id = load.id
    val isHome = sites.exists(_.executor.id == id)
    // Asked of Spark only where the answer counts: of executors that are to go, or that nobody says whether it needs them.
    lazy val stays =
      if (load.said.isEmpty) Some("it does not answer")
      else if (cluster.keepsBlock(id)) Some("it has a cached block")
      else None
    lazy val used = load.activeTasks > 0 || isHome || cluster.keepsOutput(id)
    val wanted = sites.exists(_.view.wantedElsewhere.exists { case (executor, n) => executor == id && n > 0 })
    val lanes = wanted || load.view.hostLanes > 0
    if (closed(id) && (lanes || used || stays.nonEmpty)) going += id -> 0
    else if (going.contains(id)) {
      if (stays.nonEmpty) stays.foreach(stay(id, _))
      else if (used) close(id)
      else leave(id, lanes)
    } else if (!owner.exists(isDriving)) rest(id, lanes || used || stays.nonEmpty, nowMs)
  }

  /** No more tasks begin on it, if the others have slots for all that ran at any of the last looks. */
  private def close(id: String): Unit = {
    val isKnown = running.size >= ExecutorDemand.Remembered
    if (isKnown && running.max <= cluster.slotsWithout(going.keySet + id) && cluster.close(id)) {
      closed += id
      going += id -> 0
      say(
        s"executor $id gets no more tasks, the others have slots for all: it goes when those that run have ended"
      )
    } else stay(id, "Spark has come to use it")
  }

  private def leave(id: String, lanes: Boolean): Unit =
    if (lanes) going += id -> 0
    else if (going(id) + 1 < ExecutorDemand.Looks) going += id -> (going(id) + 1)
    else {
      // Spark counts down from what it was asked for: from nothing that would be 0.
      if (requested.isEmpty && cluster.request(target)) requested = Some(target)
      val ends =
        try requested.nonEmpty && cluster.giveBack(id)
        catch {
          case NonFatal(error) =>
            logWarning(s"Executor $id could not be given back.", error)
            false
        }
      if (ends) {
        requested = requested.map(_ - 1)
        ours -= id
        gone += id
        going -= id
        closed -= id
        show()
        executors.ends(id)
        say(s"executor $id is given back: nothing was on it")
      } else if (closed(id)) going += id -> 0
      else stay(id, "Spark has come to use it")
    }

  private def stay(id: String, why: String): Unit = {
    going -= id
    idleSince -= id
    show()
    say(s"executor $id stays: $why")
  }

  private def rest(id: String, used: Boolean, nowMs: Long): Unit =
    if (used) idleSince -= id
    else {
      val since = idleSince.getOrElse(id, nowMs)
      idleSince += id -> since
      if (nowMs - since >= cluster.restMs) letGo(id, "has had nothing to do, and no autoscaler wants it")
    }
}

private object ExecutorDemand {
  val Looks = 2

  /** Looks whose tasks are remembered: half a minute, so that a query between two batches is not overlooked. */
  val Remembered = 30

  /** Executors by when they were started: their ids are running numbers. */
  def age(id: String): (Long, String) = (id.toLongOption.getOrElse(Long.MaxValue), id)
}
