package org.apache.spark.sql.laneshift.runtime

import java.util.concurrent.{ConcurrentHashMap, Executors, ScheduledExecutorService, TimeUnit}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.{SparkConf, SparkEnv, TaskContext}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.laneshift.conf.LaneshiftConf
import org.apache.spark.sql.laneshift.lane.HostAddress
import org.apache.spark.sql.laneshift.remote.HostLanes
import org.apache.spark.sql.laneshift.spec.{ElasticSpec, EndedRuns, OperatorKey, OperatorSpec}

import laneshift.lane.LaneBudget

/** The elastic partitions that one process computes, and the thread that looks after them: it balances loads and, in the
  * fault mode, moves shards. One per executor process.
  */
final class ElasticRuntime private (coreCount: Int, lanes: Int, driver: DriverMemory) extends Logging {
  private val partitions = new ConcurrentHashMap[(OperatorKey, Int), ElasticPartition]

  /** Those of tasks that are not over, with how many: a task may begin before the last one of its partition is over. */
  private val busy = new ConcurrentHashMap[ElasticPartition, Integer]
  private val ended = new EndedRuns
  private val budget = new LaneBudget(lanes)
  private[laneshift] val cores =
    new Cores(coreCount, budget, () => Cores.machineLoad())
  private[runtime] val auto = new AutoLanes(cores)
  val history = new HandoffHistory(100000)

  /** The lanes that this process runs for others. */
  private[laneshift] val hostLanes = new HostLanes(budget)

  private def here: HostAddress = {
    val (host, port) = hostLanes.address()
    HostAddress("here", host, port)
  }

  private val looks = new Every(RateSample.EveryNs)

  private val timer: ScheduledExecutorService = Executors.newSingleThreadScheduledExecutor { work =>
    val thread = new Thread(work, "laneshift control")
    thread.setDaemon(true)
    thread
  }
  timer.scheduleWithFixedDelay(
    () => tick(),
    ElasticRuntime.TickMs,
    ElasticRuntime.TickMs,
    TimeUnit.MILLISECONDS
  )

  /** The partition that a task is about to compute. */
  def partition(spec: ElasticSpec, index: Int, task: TaskContext): ElasticPartition = {
    // Before all else: a task may be killed while it asks the driver, or waits for its inputs.
    task.addTaskCompletionListener[Unit](_ => if (ended.has(spec.key.runId)) drop(spec.key.runId))
    val found = partitions.computeIfAbsent(
      (spec.key, index),
      _ => new ElasticPartition(spec, index, history, budget, cores, () => here)
    )
    busy.merge(found, 1, _ + _)
    task.addTaskCompletionListener[Unit] { _ =>
      busy.computeIfPresent(found, (_, tasks) => if (tasks == 1) null else tasks - 1)
      ()
    }
    if (spec.operator.remembered && found.mayHaveMoved(spec.batchId))
      driver.recall(spec.key, index).foreach(found.recall(_, driver.executorId))
    found
  }

  /** The task that computed the partition is over. */
  def computed(partition: ElasticPartition): Unit = remember(partition)

  /** None if the partition is not here. The driver knows what is wanted before the partition goes anywhere. */
  def setLanes(
      key: OperatorKey,
      index: Int,
      lanes: Int,
      elsewhere: Option[Map[HostAddress, Int]]
  ): Option[Applied] = find(key, index).map { partition =>
    val applied = partition.setLanes(lanes, elsewhere)
    remember(partition)
    applied
  }

  private def remember(partition: ElasticPartition): Unit =
    partition.toRemember.foreach(driver.remember(partition.key, partition.index, _))

  /** The run has ended: nothing of it will be computed again, but by tasks that are at it, or start before they hear that they
    * are not wanted. Its handoffs stay on record.
    */
  def forget(runId: String): Unit = {
    ended.add(runId)
    drop(runId)
  }

  private[laneshift] def drop(runId: String): Unit = {
    partitions.keySet().removeIf(_._1.runId == runId)
    busy.keySet().removeIf(_.key.runId == runId)
    auto.forget(runId)
    hostLanes.forget(runId)
  }

  def all: Seq[ElasticPartition] = partitions.values().asScala.toSeq

  def view: ExecutorView = ExecutorView.of(this)

  /** What all partitions say. Each task has brought its operator's spec: equal ones are one object here, which is sent once. */
  def views: Seq[PartitionView] = {
    val specs = mutable.Map.empty[OperatorSpec, OperatorSpec]
    all.map { partition =>
      val view = partition.view
      view.copy(spec = specs.getOrElseUpdate(view.spec, view.spec))
    }
  }

  def find(key: OperatorKey, index: Int): Option[ElasticPartition] = Option(partitions.get((key, index)))

  private def tick(): Unit = {
    val now = System.nanoTime()
    val isLook = looks.isDue(now)
    if (isLook) attempt("The look at the machine's load")(cores.look())
    // Of those that nobody computes only the rates change: a thousand of them, each turn, would be a tenth of a core.
    if (isLook) partitions.values().forEach(tick(_, now))
    else busy.keySet().forEach(p => if (p.isRunning) tick(p, now))
    if (isLook) letGo(now)
  }

  private def tick(partition: ElasticPartition, nowNs: Long): Unit =
    attempt(s"The controller's turn on partition ${partition.index}") {
      partition.tick(nowNs).foreach(driver.pressed)
    }

  /** Partitions that tasks compute, or are about to. */
  private[runtime] def computing: Set[ElasticPartition] = busy.keySet().asScala.toSet

  /** Forgets partitions that nobody will ask for. */
  private[runtime] def letGo(nowNs: Long): Unit = {
    val newest = all.groupMapReduce(_.key)(_.operator)((a, b) => if (a.batchId > b.batchId) a else b)
    partitions.values().removeIf(p =>
      !p.isRunning &&
        (nowNs - p.lastTouchedNs > ElasticRuntime.ForgetNs || newest.get(p.key).exists(!_.has(p.index)))
    )
    ()
  }

  /** Also past an Error: a turn that throws would be the timer's last. */
  private def attempt(what: String)(body: => Unit): Unit =
    try body
    catch { case error: Throwable => logError(s"$what failed; everything else goes on.", error) }

  private def close(): Unit = {
    hostLanes.stop()
    timer.shutdownNow()
  }

  private[runtime] def isClosed: Boolean = timer.isShutdown
}

object ElasticRuntime {
  private val TickMs = 5L

  /** A partition that nobody computed for this long is forgotten: its query has ended, or it lives elsewhere. One that its operator
    * does not have any more is so at once.
    */
  private val ForgetNs = TimeUnit.MINUTES.toNanos(30)

  private val here = new Holder

  def get: ElasticRuntime = here.get

  def start(conf: SparkConf, driver: DriverMemory): ElasticRuntime =
    here.start(OwnCores.of(conf, SparkEnv.get), conf.get(LaneshiftConf.LanesPerExecutor), driver)

  def stop(): Unit = here.stop()

  /** A process's runtime. */
  private[laneshift] final class Holder {
    @volatile private var current: ElasticRuntime = _

    /** Whether there was one: tasks may outlive their executor's plugins for a moment. */
    @volatile private var stopped = false

    def get: ElasticRuntime = {
      val found = current
      if (found == null)
        throw new IllegalStateException(
          if (stopped) "laneshift has stopped in this process, as its executor does: this task ends, too"
          else "laneshift does not run in this process: its plugin must be in spark.plugins of every executor"
        )
      found
    }

    /** One that is there already is of an application that failed to start: Spark shuts no plugin down whose neighbour's init
      * has thrown.
      */
    def start(cores: Int, lanes: Int, driver: DriverMemory): ElasticRuntime = synchronized {
      stop()
      current = new ElasticRuntime(cores, lanes, driver)
      current
    }

    def stop(): Unit = synchronized {
      if (current != null) {
        current.close()
        stopped = true
        current = null
      }
    }
  }
}
