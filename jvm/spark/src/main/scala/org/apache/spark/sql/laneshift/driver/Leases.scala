package org.apache.spark.sql.laneshift.driver

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent, StageTasks}
import org.apache.spark.sql.laneshift.lane.HostAddress
import org.apache.spark.sql.laneshift.runtime.Applied
import org.apache.spark.sql.laneshift.spec.{HandoffMode, OperatorKey}
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent

/** Lanes that need leases are wanted beside a Real-time query, which is this run. */
final case class BesideRealTime(runId: String) extends RuntimeException

/** Leases: Spark tasks that hold cores of other executors for lanes that are wanted there (docs/handoff.md, section 16;
  * decisions/0019). A partition is told of a lane only while its lease is held. There is no thread and no job before somebody wants
  * such a lane.
  *
  * Commands and looks come one after the other, also while executors are asked: `inTurn`. What there is of leases has another lock,
  * which is held over no question to anybody: a Real-time query does not wait for an executor that is silent. Lock order:
  * `inTurn`, then this.
  *
  * @param active runs that go on
  * @param goesOn whether one does that may have ended a moment ago
  */
private[laneshift] final class Leases(
    executors: ExecutorDirectory,
    active: () => Set[String],
    jobs: LeaseJobs = new SparkLeaseJobs,
    nowMs: () => Long = () => System.nanoTime() / 1000000L,
    everyMs: Long = Leases.EveryMs,
    goesOn: String => Boolean = RunningQueries.goesOn(_),
    stages: () => Seq[StageTasks] = () => StageTasks.now()
) extends SparkListener
    with Logging {
  import Leases._

  /** Tasks of streaming queries, which come first. */
  private[laneshift] val tasks = new QueryTasks(() => soon(), stages, nowMs)

  private val inTurn = new Object

  /** Oldest first. */
  private val leases = mutable.LinkedHashMap.empty[String, Lease]

  /** What is over for us, and not yet for Spark. */
  private var ending = Seq.empty[LeaseJob]

  /** Lanes by executor that a partition was told of. */
  private val told = mutable.Map.empty[Owner, Map[String, Int]].withDefaultValue(Map.empty)

  /** Why the newest lane that has no lease has none. */
  private val notes = mutable.Map.empty[Owner, String]

  private val realTime = ConcurrentHashMap.newKeySet[String]()
  @volatile private var thread = Option.empty[Repeating]

  /** For who looks without the lock: lanes that are wanted, by executor, and why the newest that is not there is not. */
  @volatile private var shown = Map.empty[Owner, (Map[String, Int], Option[String])]

  // ---- commands

  /** Wants so many lanes of a partition and, where `hosts` says so, others on other executors, each with a lease: the partition has
    * those whose leases are held at once, and the others when they are. None if the partition has just left its executor.
    *
    * @throws BesideRealTime if there can be no leases now
    */
  def setLanes(site: PartitionSite, lanes: Int, hosts: Option[Map[String, Int]]): Option[Applied] =
    inTurn.synchronized {
      hosts.fold(site.setLanes(lanes, None)) { wanted =>
        want(ownerOf(site), wanted)
        tell(site, lanes)
      }
    }

  private def want(owner: Owner, hosts: Map[String, Int]): Unit = synchronized {
    if (hosts.nonEmpty) realTime.asScala.find(goesOn).foreach(run => throw BesideRealTime(run))
    notes.remove(owner)
    (hosts.keySet ++ mine(owner).map(_.executorId)).foreach(e => want(owner, e, hosts.getOrElse(e, 0)))
    begin()
    show()
  }

  /** Those without a task go first. */
  private def want(owner: Owner, executor: String, lanes: Int): Unit = {
    val have = mine(owner).filter(_.executorId == executor)
    have.reverse.sortBy(_.held).take(have.size - lanes).foreach(end)
    (have.size until lanes).foreach { _ =>
      val lease = new Lease(UUID.randomUUID.toString, owner, executor, nowMs())
      leases(lease.id) = lease
    }
  }

  /** A Real-time query begins a batch: Spark lets it only where slots for all of its tasks are free at once. Returns when no lease is
    * held, a few seconds later at most. Only for tasks that end is there a wait, not for executors' answers, nor for a look.
    */
  def giveWayTo(runId: String): Unit = if (realTime.add(runId) && dropAll()) {
    executors.endLeases()
    val patience = System.nanoTime() + PatienceMs * 1000000L
    while (areEnding && System.nanoTime() < patience) Thread.sleep(PollMs)
  }

  /** False if nobody has wanted any so far. */
  private def dropAll(): Boolean = synchronized {
    leases.values.toSeq.foreach(drop(
      _,
      "beside a Real-time query, which needs free slots to begin, there is no lease"
    ))
    if (areUsed) show()
    areUsed
  }

  private def areEnding: Boolean = synchronized(ending.exists(!_.isOver))

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case over: QueryTerminatedEvent =>
      realTime.remove(over.runId.toString)
      soon()
    case _ => ()
  }

  /** Partitions as who looks from outside sees them: with the lanes that are wanted, whether leases are held for them or not. */
  def overlaid(sites: Seq[PartitionSite]): Seq[PartitionSite] = {
    val now = shown
    if (now.isEmpty) sites
    else sites.map { site =>
      now.get(ownerOf(site)).fold(site) { case (wanted, note) =>
        val there = site.view.wantedElsewhere.toMap ++ wanted
        site.copy(view =
          site.view.copy(
            wantedElsewhere = there.toSeq.sorted,
            elsewhereNote = site.view.elsewhereNote.orElse(note)
          )
        )
      }
    }
  }

  /** Whether somebody has wanted lanes with leases. */
  def areUsed: Boolean = thread.nonEmpty

  // ---- looks

  private def begin(): Unit = {
    if (thread.isEmpty && leases.nonEmpty) {
      val made = new Repeating("laneshift leases", everyMs)(look())
      made.start()
      thread = Some(made)
    }
    soon()
  }

  /** On any thread, which does not wait. */
  private def soon(): Unit = thread.foreach(_.once(look()))

  def stop(): Unit = thread.foreach(_.stop())

  private[driver] def look(): Unit = inTurn.synchronized {
    if (isBusy) {
      val sites = executors.partitions()
      val heldThere = executors.leases(next(sites, executors.inventory()))
      changed(sites, heldThere).foreach(s => tell(s, s.view.wantedLanes))
      synchronized(show())
    }
  }

  private def isBusy: Boolean = synchronized {
    ending = ending.filterNot(_.isOver)
    leases.nonEmpty || ending.nonEmpty || told.nonEmpty
  }

  /** The leases that there are from now on. */
  private def next(sites: Seq[PartitionSite], loads: Seq[ExecutorLoad]): Set[String] = synchronized {
    follow(sites, loads)
    giveWay(sites, loads)
    giveUp()
    ask(loads)
    leases.keySet.toSet
  }

  /** Partitions that have other lanes from now on. */
  private def changed(sites: Seq[PartitionSite], heldThere: Map[String, Set[String]]): Seq[PartitionSite] =
    synchronized {
      hear(heldThere)
      sites.filter(s => told(ownerOf(s)) != held(ownerOf(s)))
    }

  /** Leases go with what they were for: the query, the executor, the lane that the partition itself does not want any more. */
  private def follow(sites: Seq[PartitionSite], loads: Seq[ExecutorLoad]): Unit = {
    val runs = active()
    def isOver(owner: Owner) = !runs(owner.key.runId)
    leases.values.toSeq.foreach { lease =>
      if (isOver(lease.owner)) end(lease)
      else if (!loads.exists(_.id == lease.executorId)) drop(lease, "it is gone")
      else if (loads.exists(l => l.id == lease.executorId && l.leaving)) drop(lease, "it is leaving")
    }
    told.keys.toSeq.filter(isOver).foreach(told.remove)
    notes.keys.toSeq.filter(isOver).foreach(notes.remove)
    sites.foreach { site =>
      val owner = ownerOf(site)
      val there = site.view.wantedElsewhere.toMap
      told(owner).foreach { case (executor, lanes) =>
        // The partition says itself why.
        val lost = lanes - there.getOrElse(executor, 0)
        mine(owner).filter(l => l.held && l.executorId == executor).takeRight(lost).foreach(end)
      }
      if (told.contains(owner)) noteTold(owner, there)
    }
  }

  /** Tasks of streaming queries come first. */
  private def giveWay(sites: Seq[PartitionSite], loads: Seq[ExecutorLoad]): Unit = {
    loads.foreach { load =>
      val here = leases.values.filter(_.executorId == load.id).toSeq
      val beyond = here.size - math.max(0, load.cores - tasksOf(sites, load.id))
      here.takeRight(beyond).foreach(drop(_, NeedsCores))
    }
    val slots = loads.map(_.cores).sum
    val beyond = leases.size - math.max(0, slots - tasks.most)
    leases.values.toSeq.takeRight(math.max(beyond, tasks.stuck(StuckMs))).foreach(drop(_, NeedsCores))
  }

  /** Tasks at a time of the state partitions that an executor is home of: elsewhere they would not find their stores. */
  private def tasksOf(sites: Seq[PartitionSite], executorId: String): Int =
    sites.filter(_.view.spec.handoff != HandoffMode.Dealt).groupBy(_.view.spec.key.runId).values.map { ofRun =>
      ofRun.groupBy(_.view.spec.key.operatorId).values.map { of =>
        val spec = of.head.view.spec
        math.ceil(of.count(_.executor.id == executorId).toDouble * spec.tasks / spec.partitions).toInt
      }.max
    }.sum

  private def giveUp(): Unit = leases.values.toSeq.foreach { lease =>
    if (!lease.held && nowMs() - lease.sinceMs >= PatienceMs)
      drop(lease, s"no core of it was free for a lease within ${PatienceMs / 1000} s")
  }

  /** Only where a core is free: a task of ours does not wait in Spark's queue before others. */
  private def ask(loads: Seq[ExecutorLoad]): Unit = leases.values.filter(_.job.isEmpty).foreach { lease =>
    loads.find(_.id == lease.executorId).foreach { load =>
      val ours = leases.values.count(l => l.executorId == load.id && l.job.nonEmpty)
      if (load.cores - load.activeTasks - load.view.homeLanes - ours > 0)
        lease.job = jobs.submit(lease.id, load.id, load.host)
    }
  }

  private def hear(heldThere: Map[String, Set[String]]): Unit = leases.values.toSeq.foreach { lease =>
    if (heldThere.get(lease.executorId).exists(_(lease.id))) lease.held = true
    else if (lease.job.exists(_.isOver)) drop(lease, "Spark has ended the task that held its core")
  }

  /** The partition is to have lanes elsewhere where leases are held. */
  private def tell(site: PartitionSite, lanes: Int): Option[Applied] = {
    val owner = ownerOf(site)
    val hosts = synchronized(held(owner)).flatMap { case (executor, n) => address(executor).map(_ -> n) }
    val applied = site.setLanes(lanes, Some(hosts))
    if (applied.nonEmpty)
      synchronized(noteTold(owner, hosts.map { case (host, n) => host.executorId -> n }))
    applied
  }

  private def address(executor: String): Option[HostAddress] =
    try executors.hostAddress(executor)
    catch {
      case NonFatal(error) =>
        logWarning(s"Executor $executor does not say where its lanes are reached.", error)
        None
    }

  // ---- bookkeeping

  private def mine(owner: Owner): Seq[Lease] = leases.values.filter(_.owner == owner).toSeq

  private def held(owner: Owner): Map[String, Int] =
    mine(owner).filter(_.held).groupMapReduce(_.executorId)(_ => 1)(_ + _)

  private def noteTold(owner: Owner, hosts: Map[String, Int]): Unit =
    if (hosts.isEmpty) told.remove(owner) else told(owner) = hosts

  private def end(lease: Lease): Unit = leases.remove(lease.id).foreach { _ =>
    lease.job.foreach { job =>
      if (!lease.held) job.cancel()
      ending :+= job
    }
  }

  private def drop(lease: Lease, why: String): Unit = {
    end(lease)
    notes(lease.owner) = s"executor ${lease.executorId}: $why"
    logInfo(s"Partition ${lease.owner.index} has a lane less on executor ${lease.executorId}: $why.")
  }

  private def show(): Unit = shown = (leases.values.map(_.owner) ++ notes.keys).toSeq.distinct.map { owner =>
    owner -> (mine(owner).groupMapReduce(_.executorId)(_ => 1)(_ + _) -> notes.get(owner))
  }.toMap
}

private object Leases {
  val EveryMs = 500L

  /** So long a lane waits for its lease, and a Real-time query for the end of all. */
  val PatienceMs = 5000L
  private val PollMs = 10L

  /** So long no task of a streaming query has begun, and some wait: whatever they lack, it may be what leases have. */
  private val StuckMs = 2000L
  private val NeedsCores = "tasks of streaming queries need its cores"

  /** The partition that a lane is of. */
  private final case class Owner(key: OperatorKey, index: Int)

  private def ownerOf(site: PartitionSite): Owner = Owner(site.view.spec.key, site.view.index)

  /** A core of an executor for one lane of a partition. */
  private final class Lease(val id: String, val owner: Owner, val executorId: String, val sinceMs: Long) {
    var job = Option.empty[LeaseJob]
    var held = false
  }
}
