package org.apache.spark.sql.laneshift.control

import java.util.concurrent.ConcurrentHashMap

import scala.concurrent.duration._
import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag
import scala.util.control.NonFatal

import org.apache.spark.SparkException
import org.apache.spark.internal.Logging
import org.apache.spark.rpc.{RpcEndpointRef, RpcTimeout}
import org.apache.spark.scheduler.{SparkListener, SparkListenerExecutorRemoved}
import org.apache.spark.sql.laneshift.BuildInfo

/** One executor that runs the plugin, as its driver reaches it. */
final case class Executor(id: String, host: String, ref: RpcEndpointRef) {
  def ask[T: ClassTag](request: ExecutorRequest): T =
    ref.askSync[T](request, new RpcTimeout(Executor.Timeout, "laneshift executor timeout"))
}

object Executor {
  private val Timeout = 10.seconds
}

/** An elastic partition where it was last computed. */
final case class PartitionSite(executor: Executor, view: PartitionView) {
  private def key = view.spec.key

  /** None if the executor does not have the partition any more. */
  def setLanes(lanes: Int): Option[Applied] =
    executor.ask[Option[Applied]](ExecutorRequest.SetLanes(key, view.index, lanes))

  def moveShard(shard: Int, lane: Int): Option[Either[String, (Int, Applied)]] =
    executor.ask[Option[Either[String, (Int, Applied)]]](
      ExecutorRequest.MoveShard(key, view.index, shard, lane)
    )
}

/** The executors of this driver's application that run the plugin; in local mode the driver's own process is the only one. */
object Executors extends SparkListener with Logging {
  private val known = new ConcurrentHashMap[String, Executor]

  /** Throws if the executor runs another build: its lanes might not speak our language. */
  def register(hello: ExecutorHello): Unit = {
    if (hello.version != BuildInfo.version) throw new SparkException(
      s"Executor ${hello.id} on ${hello.host} has laneshift ${hello.version}, but the driver ${BuildInfo.version}: " +
        "both must be of one version. Give executors the driver's jar (spark.jars), and remove others from their class path."
    )
    known.put(hello.id, Executor(hello.id, hello.host, hello.ref))
    logInfo(s"laneshift runs on executor ${hello.id} (${hello.host})")
  }

  override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit = known.remove(event.executorId)

  def clear(): Unit = known.clear()

  private def all: Seq[Executor] = known.values().asScala.toSeq.sortBy(_.id)

  /** Every elastic partition, once: where it runs now or ran last. */
  def partitions(): Seq[PartitionSite] = all
    .flatMap(e =>
      answer[Seq[PartitionView]](e, ExecutorRequest.Partitions).getOrElse(Nil).map(PartitionSite(e, _))
    )
    .groupBy(s => (s.view.spec.key, s.view.index))
    .values
    .map(_.maxBy(s => (s.view.spec.batchId, s.view.running)))
    .toSeq

  /** The newest `limit` handoffs of some runs, or of all, oldest first, each with its executor's running number. */
  def handoffs(limit: Int, runIds: Option[Set[String]]): Seq[(Long, HandoffRecord)] = all
    .flatMap(e =>
      answer[Seq[(Long, HandoffRecord)]](e, ExecutorRequest.Handoffs(limit, runIds)).getOrElse(Nil)
    )
    .sortBy { case (seq, h) => (h.timeMs, seq) }
    .takeRight(limit)

  def forget(runId: String): Unit = all.foreach { e =>
    try e.ref.send(ExecutorRequest.Forget(runId))
    catch { case NonFatal(error) => logDebug(s"executor ${e.id} is gone", error) }
  }

  /** None if the executor does not answer: it is on its way out, or Spark will find that it is. */
  private def answer[T: ClassTag](executor: Executor, request: ExecutorRequest): Option[T] =
    try Some(executor.ask[T](request))
    catch {
      case NonFatal(error) =>
        logWarning(s"Executor ${executor.id} (${executor.host}) does not answer; it is left out.", error)
        None
    }
}
