package org.apache.spark.sql.laneshift.driver

import java.util.Properties
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable
import scala.concurrent.duration._

import org.scalatest.Assertions._
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Millis, Seconds, Span}

import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.{SparkListenerStageSubmitted, StageInfo, StageTasks}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.laneshift.runtime.HeldLeases

/** Jobs whose tasks are threads of this process, which hold their leases on `host`. */
private[laneshift] final class FakeLeaseJobs(host: => FakeExecutor) extends LeaseJobs {

  /** Whether tasks begin at once; they wait in the queue otherwise. */
  @volatile var begins = true
  val submitted = mutable.Buffer.empty[FakeLeaseJob]

  override def submit(lease: String, executorId: String, at: String): Option[LeaseJob] = {
    val job = new FakeLeaseJob(lease, host)
    submitted += job
    if (begins) job.begin()
    Some(job)
  }

  /** Those that have a core, or wait for one. */
  def unfinished: Int = submitted.count(!_.isOver)
}

private[laneshift] final class FakeLeaseJob(lease: String, host: FakeExecutor) extends LeaseJob {
  @volatile private var killed = false
  @volatile private var over = false
  private val task = new Thread(() => {
    host.leases.hold(lease, () => killed)
    over = true
  })
  task.setDaemon(true)

  def begin(): Unit = {
    val before = host.leases.count
    task.start()
    eventually(timeout(Span(110, Seconds)))(assert(host.leases.count > before || over))
    ()
  }
  def kill(): Unit = killed = true
  override def isOver: Boolean = over
  override def cancel(): Unit = if (task.isAlive) kill() else over = true
}

/** Leases of a query that did run, on a host that Spark knows: the only one of local mode. */
private[laneshift] final class LeaseSetting extends AutoCloseable {
  ElasticSession.shared // with which Spark begins
  val clock = new AtomicLong
  @volatile private var stages = Map.empty[Int, StageTasks]
  val directory = new ExecutorDirectory(1.hour, (cores, _) => cores / cpus, () => stages.values.toSeq)
  val host: FakeExecutor = new FakeExecutor("driver").register(directory)
  val home: FakeExecutor = new FakeExecutor("1", FakeQuery.views).register(directory)
  val run: String = FakeQuery.views.head.spec.key.runId
  val jobs = new FakeLeaseJobs(host)
  var active = Set(run)
  var cpus = 1
  var stopped = Set.empty[String]
  val leases = new Leases(
    directory,
    () => active,
    jobs,
    () => clock.get,
    everyMs = 3600000L,
    goesOn = !stopped(_),
    stages = () => stages.values.toSeq
  )
  def cores: Int = directory.inventory().head.cores

  def site(index: Int): PartitionSite = directory.partitions().find(_.view.index == index).get
  def want(index: Int, lanes: Int): Unit = {
    leases.setLanes(site(index), 1, Some(if (lanes == 0) Map.empty else Map("driver" -> lanes)))
    ()
  }
  def look(): Unit = leases.look()
  def shown(index: Int): (Map[String, Int], Option[String]) = {
    val view = leases.overlaid(Seq(site(index))).head.view
    (view.wantedElsewhere.toMap, view.elsewhereNote)
  }

  /** So many tasks are wanted at once by a stage of a streaming query, or of some other job. */
  def stage(id: Int, tasks: Int, properties: (String, String)*): Unit = {
    val of = new Properties
    properties.foreach { case (name, value) => of.setProperty(name, value) }
    stages += id -> StageTasks((id, 0), Some(of), tasks, Nil)
    val info = new StageInfo(
      id,
      0,
      "stage",
      tasks,
      Nil,
      Nil,
      "",
      resourceProfileId = ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID
    )
    leases.tasks.onStageSubmitted(SparkListenerStageSubmitted(info, of))
  }
  def stageOfQuery(id: Int, tasks: Int): Unit = stage(id, tasks, StreamExecution.QUERY_ID_KEY -> "a query")
  def begun(stage: Int, tasks: Int): Unit = stages = stages.updatedWith(stage)(
    _.map(s => s.copy(waiting = s.waiting - tasks, running = s.running ++ Seq.fill(tasks)("driver")))
  )
  def stageOver(id: Int): Unit = stages -= id

  override def close(): Unit = {
    leases.stop()
    jobs.submitted.foreach(_.kill())
  }
}

/** What must hold of leases. */
private[laneshift] object LeaseChecks {
  implicit private val patienceConfig: PatienceConfig = PatienceConfig(Span(110, Seconds), Span(20, Millis))

  private def setting(body: LeaseSetting => Unit): Unit = {
    val made = new LeaseSetting
    try body(made)
    finally made.close()
  }

  /** A lane is told of while its lease is held; nothing is held any more once nobody wants it. */
  def heldAndGivenBack(): Unit = setting { s =>
    s.want(0, 2)
    s.look()
    assert(s.home.wishes == Seq(0 -> Map("driver" -> 2)))
    s.want(0, 1)
    s.look()
    eventually(assert(s.jobs.unfinished == 1))
    assert(s.home.wishes == Seq(0 -> Map("driver" -> 1)))
    s.active = Set.empty
    s.look()
    eventually(assert(s.jobs.unfinished == 0 && s.host.leases.count == 0))
  }

  /** A driver that is not heard of for ten seconds leaves no task behind. */
  def withoutWord(): Unit = {
    val clock = new AtomicLong
    val held = new HeldLeases(() => clock.get)
    val task = new Thread(() => held.hold("a", () => false))
    task.setDaemon(true)
    task.start()
    eventually(assert(held.word(Set("a", "b")) == Set("a")))
    clock.addAndGet(HeldLeases.PatienceNs - 1)
    assert(held.word(Set("a")) == Set("a"), "a word renews it")
    clock.addAndGet(HeldLeases.PatienceNs)
    eventually(assert(!task.isAlive && held.count == 0))
  }

  /** Tasks of streaming queries that wait get the cores, and lanes go. */
  def tasksComeFirst(): Unit = setting { s =>
    val cores = s.cores
    s.want(0, 2)
    s.look()
    assert(s.host.leases.count == 2)
    s.stageOfQuery(1, cores)
    s.begun(1, cores - 2)
    s.look()
    eventually(assert(s.host.leases.count == 0 && s.jobs.unfinished == 0))
    assert(s.home.wishes.isEmpty)
    assert(s.shown(0)._2.exists(_.contains("tasks of streaming queries need its cores")))
  }
}
