package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.{ConcurrentHashMap, TimeoutException}

import scala.concurrent.Future
import scala.concurrent.duration._
import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag
import scala.util.control.NonFatal

import org.apache.spark.{SparkConf, SparkContext, SparkException}
import org.apache.spark.internal.Logging
import org.apache.spark.rpc.{RpcEndpointRef, RpcTimeout}
import org.apache.spark.scheduler.{SparkListener, SparkListenerExecutorRemoved, StageTasks}
import org.apache.spark.sql.laneshift.conf.BuildInfo
import org.apache.spark.sql.laneshift.lane.HostAddress
import org.apache.spark.sql.laneshift.runtime.{
  ExecutorHello,
  ExecutorRequest,
  ExecutorView,
  HandoffRecord,
  OwnCores,
  PartitionCommand,
  PartitionView
}
import org.apache.spark.sql.laneshift.wire.RpcBytes
import org.apache.spark.util.ThreadUtils

/** One executor that runs the plugin, as its driver reaches it. */
final case class ExecutorRef(id: String, host: String, ref: RpcEndpointRef) {

  /** Throws if the executor does not answer in time. */
  def ask[T: ClassTag](request: ExecutorRequest): T = await[T](asking(request))

  /** Throws if the executor does not answer in time. */
  def await[T: ClassTag](answer: Future[Array[Byte]]): T =
    RpcBytes.read[T](ExecutorRef.Timeout.awaitResult(answer))

  def asking(request: ExecutorRequest): Future[Array[Byte]] =
    ref.ask[Array[Byte]](RpcBytes.of(request), ExecutorRef.Timeout)
}

object ExecutorRef {
  private[laneshift] val Patience = 10.seconds
  private val Timeout = new RpcTimeout(Patience, "laneshift's time for an executor's answer")
}

/** An executor's cores and running tasks (counts), and what it says of itself; none if it does not answer.
  *
  * @param cores as tasks count them: [[OwnCores.forTasks]]
  * @param leaving Spark gives it no tasks any more: it is decommissioned or excluded; or it is to be given back
  * @param asked it is there because an autoscaler has asked for it
  */
final case class ExecutorLoad(
    id: String,
    host: String,
    cores: Int,
    activeTasks: Int,
    leaving: Boolean,
    said: Option[ExecutorView],
    asked: Boolean = false
) {
  def view: ExecutorView = said.getOrElse(ExecutorView.idle)

  /** Below zero if lanes run for which there is no core. */
  private def left: Int = cores - view.tasks - view.homeLanes - view.hostLanes

  /** Cores that lanes could have: none of an executor that leaves or does not answer. */
  def idleCores: Int = if (leaving || said.isEmpty) 0 else math.max(0, left)

  /** Lanes of other executors' partitions that should go. */
  def surplusLanes: Int = if (leaving) view.hostLanes else math.max(0, math.min(view.hostLanes, -left))
}

/** An elastic partition where it was last computed. */
final case class PartitionSite(executor: ExecutorRef, view: PartitionView)

/** The executors of this driver's application that run the plugin; in local mode the driver's own process is the only one.
  *
  * An executor that does not answer costs its `patience` once: from then on it is asked, but not waited for, until it answers.
  */
private[laneshift] final class ExecutorDirectory(
    patience: FiniteDuration = ExecutorRef.Patience,
    forTasks: (Int, SparkConf) => Int = OwnCores.forTasks,
    running: () => Map[String, Int] = () => StageTasks.running()
) extends SparkListener
    with Logging {
  private val known = new ConcurrentHashMap[String, ExecutorRef]
  private val silent = ConcurrentHashMap.newKeySet[String]()
  private val knownViews = new KnownViews

  /** Throws if the executor runs another build: its lanes might not speak our language. */
  def register(hello: ExecutorHello): Unit = {
    if (hello.version != BuildInfo.version) throw new SparkException(
      s"Executor ${hello.id} on ${hello.host} has laneshift ${hello.version}, but the driver ${BuildInfo.version}: " +
        "both must be of one version. Give executors the driver's jar (spark.jars), and remove others from their class path."
    )
    known.put(hello.id, ExecutorRef(hello.id, hello.host, hello.ref))
    logInfo(s"laneshift runs on executor ${hello.id} (${hello.host})")
  }

  /** Spark is ending it, at our wish: it is not asked any more. */
  private[driver] def ends(executorId: String): Unit = {
    known.remove(executorId)
    ()
  }

  override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit = {
    known.remove(event.executorId)
    silent.remove(event.executorId)
    knownViews.forget(event.executorId)
  }

  /** Executors that an autoscaler has asked for, and those of them that are to be given back. */
  @volatile private var demand = (Set.empty[String], Set.empty[String])

  private[driver] def demanded(asked: Set[String], leaving: Set[String]): Unit = demand = (asked, leaving)

  private def all: Seq[ExecutorRef] = known.values().asScala.toSeq.sortBy(_.id)

  /** The cores of each executor, and what uses them now. */
  def inventory(): Seq[ExecutorLoad] = {
    val said = ask[ExecutorView](ExecutorRequest.Executor).apply().map { case (e, view) =>
      e.id -> view
    }.toMap
    val (asked, goingBack) = demand
    // Spark's own count for its UI leaves out tasks that start within 100 ms of each other.
    val tasks = running()
    for {
      context <- SparkContext.getActive.toSeq
      known = context.statusStore.executorList(activeOnly = true).map(e => e.id -> e).toMap
      executor <- all
      spark <- known.get(executor.id)
    } yield {
      val leaving = goingBack(executor.id) || spark.isExcluded ||
        context.taskScheduler.getExecutorDecommissionState(spark.id).nonEmpty
      ExecutorLoad(
        executor.id,
        executor.host,
        forTasks(spark.totalCores, context.conf),
        tasks.getOrElse(executor.id, 0),
        leaving,
        said.get(executor.id),
        asked(executor.id)
      )
    }
  }

  /** Asks for both at once, and waits for the answers. */
  def look(): Look = {
    val sites = askPartitions()
    Look(inventory(), sites())
  }

  /** Where an executor's host lanes are reached; none if there is no such executor. */
  def hostAddress(executorId: String): Option[HostAddress] = Option(known.get(executorId)).map { executor =>
    val (host, port) = executor.ask[(String, Int)](ExecutorRequest.HostAt)
    HostAddress(executorId, host, port)
  }

  /** Takes so many lanes off an executor, of those partitions first that want most there. */
  def leave(sites: Seq[PartitionSite], executorId: String, lanes: Int, why: String): Unit = {
    var left = lanes
    def wanted(site: PartitionSite) = site.view.wantedElsewhere.collectFirst { case (`executorId`, n) => n }
    sites.filter(wanted(_).nonEmpty).sortBy(-wanted(_).getOrElse(0)).foreach { site =>
      if (left > 0) {
        val command = PartitionCommand.Leave(site.view.spec.key, site.view.index, executorId, left, why)
        left -= tell(Seq(site -> command)).head.fold(what => throw new SparkException(what), _.getOrElse(0))
      }
    }
  }

  /** Gives partitions commands, those of one executor in one message and all executors at a time. What each answers, in the same
    * order: none if its executor does not have the partition any more; Left is what went wrong.
    */
  def tell[T](commands: Seq[(PartitionSite, PartitionCommand[T])]): Seq[Either[String, Option[T]]] = {
    val asked = commands.groupBy(_._1.executor).map { case (executor, its) =>
      executor -> executor.asking(ExecutorRequest.OfPartitions(its.map(_._2)))
    }
    val answers = asked.map { case (executor, answer) =>
      executor ->
        (try Right(executor.await[Seq[Either[String, Option[T]]]](answer).iterator)
        catch { case NonFatal(problem) => Left(problem.toString) })
    }
    commands.map { case (site, _) => answers(site.executor).flatMap(_.next()) }
  }

  /** Every elastic partition that its operator has, once: where it runs now or ran last. */
  def partitions(): Seq[PartitionSite] = askPartitions()()

  /** Asks at once; what this gives waits for the answers. */
  def askPartitions(): () => Seq[PartitionSite] = {
    val answers = asking(ExecutorRequest.Partitions)((e, answer) => knownViews.read(e.id, answer))
    () =>
      answers()
        .flatMap { case (executor, views) => views.map(PartitionSite(executor, _)) }
        .groupBy(s => (s.view.spec.key, s.view.index))
        .values
        .map(_.maxBy(s => (s.view.spec.batchId, s.view.running)))
        .groupBy(_.view.spec.key)
        .values
        .flatMap { its =>
          // After a change to fewer the others are there, until their executors forget them.
          val newest = its.map(_.view.spec).maxBy(_.batchId)
          its.filter(site => newest.has(site.view.index))
        }
        .toSeq
  }

  /** The newest `limit` handoffs of some runs, or of all, oldest first, each with its executor's running number. */
  def handoffs(limit: Int, runIds: Option[Set[String]]): Seq[(Long, HandoffRecord)] =
    askHandoffs(limit, runIds)()

  /** Asks at once; what this gives waits for the answers. */
  def askHandoffs(limit: Int, runIds: Option[Set[String]]): () => Seq[(Long, HandoffRecord)] = {
    val answers = ask[Seq[(Long, HandoffRecord)]](ExecutorRequest.Handoffs(limit, runIds))
    () => answers().flatMap(_._2).sortBy { case (seq, h) => (h.timeMs, seq) }.takeRight(limit)
  }

  /** Rows that the sources of Real-time queries have given since the run began, by run id, where their readers count them. */
  def sourceRows(): Map[String, Long] =
    ask[Map[String, Long]](ExecutorRequest.SourceRows).apply().flatMap(_._2).groupMapReduce(_._1)(_._2)(_ + _)

  /** Holds the readers of a run's source back for a while, on every executor that answers. */
  def limitSource(runId: String, rate: Double, seconds: Double): Unit = {
    ask[Any](ExecutorRequest.LimitSource(runId, rate, seconds)).apply()
    ()
  }

  /** Waits for nobody. */
  def forget(runId: String): Unit = all.foreach(_.asking(ExecutorRequest.Forget(runId)))

  /** Asks all at once; what this gives waits for them together. Who does not answer is left out: on its way out, or Spark will find
    * that it is.
    */
  private def ask[T: ClassTag](request: ExecutorRequest): () => Seq[(ExecutorRef, T)] =
    asking(request)((_, answer) => RpcBytes.read[T](answer))

  private def asking[T](request: ExecutorRequest)(
      read: (ExecutorRef, Array[Byte]) => T
  ): () => Seq[(ExecutorRef, T)] = {
    val deadline = patience.fromNow
    val asked = all.map { executor =>
      val answer = executor.asking(request)
      answer.foreach(_ => answers(executor))(ThreadUtils.sameThread)
      executor -> answer
    }
    () =>
      for {
        (executor, answer) <- asked
        said <- await(executor, answer, deadline)(read(executor, _))
      } yield executor -> said
  }

  private def await[T](
      executor: ExecutorRef,
      answer: Future[Array[Byte]],
      deadline: Deadline
  )(read: Array[Byte] => T): Option[T] =
    try {
      val wait = if (silent.contains(executor.id)) Duration.Zero else deadline.timeLeft.max(Duration.Zero)
      ThreadUtils.awaitReady(answer, wait)
      answer.value.map(said => read(said.get))
    } catch {
      case _: TimeoutException =>
        if (known.containsKey(executor.id) && silent.add(executor.id))
          logWarning(
            s"Executor ${executor.id} (${executor.host}) does not answer; it is left out, and not waited for until it does."
          )
        // It may have answered before it was on the list.
        if (answer.value.exists(_.isSuccess)) answers(executor)
        None
      case NonFatal(error) =>
        logWarning(s"Executor ${executor.id} (${executor.host}) does not answer; it is left out.", error)
        None
    }

  private def answers(executor: ExecutorRef): Unit =
    if (silent.remove(executor.id))
      logInfo(s"Executor ${executor.id} (${executor.host}) answers again.")
}
