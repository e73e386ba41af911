package org.apache.spark.sql.laneshift.runtime

import org.apache.spark.rpc.{IsolatedThreadSafeRpcEndpoint, RpcCallContext, RpcEndpointRef, RpcEnv}
import org.apache.spark.sql.laneshift.lane.HostAddress
import org.apache.spark.sql.laneshift.source.SourceRuns
import org.apache.spark.sql.laneshift.spec.OperatorKey
import org.apache.spark.sql.laneshift.wire.RpcBytes

/** An executor's plugin tells the driver's that it is there, and where it can be asked. */
final case class ExecutorHello(id: String, host: String, version: String, ref: RpcEndpointRef)

/** What the driver asks of an executor; the comment is what it answers with. */
sealed trait ExecutorRequest

object ExecutorRequest {

  /** `Seq[PartitionView]` */
  case object Partitions extends ExecutorRequest

  /** `ExecutorView` */
  case object Executor extends ExecutorRequest

  /** `Option[Applied]`; none if the partition is not here. Without `elsewhere` what is wanted on other executors stays so. */
  final case class SetLanes(
      key: OperatorKey,
      partition: Int,
      lanes: Int,
      elsewhere: Option[Map[HostAddress, Int]]
  ) extends ExecutorRequest

  /** `Option[Int]`: how many lanes on another executor the partition has given up; none if it is not here. */
  final case class Leave(key: OperatorKey, partition: Int, executorId: String, lanes: Int, why: String)
      extends ExecutorRequest

  /** `(String, Int)`: host and port at which lanes that others want here are reached. */
  case object HostAt extends ExecutorRequest

  /** `Option[Either[String, (Int, Applied)]]` as [[ElasticPartition.moveShard]]; none if the partition is not here. */
  final case class MoveShard(key: OperatorKey, partition: Int, shard: Int, lane: Int) extends ExecutorRequest

  /** `Boolean`: whether the partition is here, whose balancer now rests for so long. */
  final case class RestBalancer(key: OperatorKey, partition: Int, seconds: Double) extends ExecutorRequest

  /** `Seq[(Long, HandoffRecord)]`: the newest of some runs, or of all. */
  final case class Handoffs(limit: Int, runIds: Option[Set[String]]) extends ExecutorRequest

  /** `Map[String, Long]` as [[SourceRuns.rows]]. */
  case object SourceRows extends ExecutorRequest

  /** `Unit`: readers of the run's source are held back for a while. */
  final case class LimitSource(runId: String, rate: Double, seconds: Double) extends ExecutorRequest

  /** `Unit`: the run has ended. */
  final case class Forget(runId: String) extends ExecutorRequest
}

/** The driver's way to the elastic partitions of this process. */
final class ExecutorEndpoint(override val rpcEnv: RpcEnv, runtime: ElasticRuntime)
    extends IsolatedThreadSafeRpcEndpoint {
  import ExecutorRequest._

  override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
    case bytes: Array[Byte] =>
      context.reply(RpcBytes.of(answer(RpcBytes.read[ExecutorRequest](bytes))))
  }

  private def answer(request: ExecutorRequest): Any = request match {
    case Partitions => runtime.views
    case Executor => runtime.view
    case SetLanes(key, partition, lanes, elsewhere) => runtime.setLanes(key, partition, lanes, elsewhere)
    case Leave(key, partition, executorId, lanes, why) =>
      runtime.find(key, partition).map(_.leave(executorId, lanes, why))
    case HostAt => runtime.hostLanes.address()
    case MoveShard(key, partition, shard, lane) => runtime.find(key, partition).map(_.moveShard(shard, lane))
    case RestBalancer(key, partition, seconds) =>
      runtime.find(key, partition).map(_.restBalancer(seconds)).nonEmpty
    case Handoffs(limit, runIds) => runtime.history.newest(limit)(h => runIds.forall(_(h.key.runId)))
    case SourceRows => SourceRuns.rows
    case LimitSource(runId, rate, seconds) => SourceRuns.limit(runId, rate, seconds)
    case Forget(runId) =>
      runtime.forget(runId)
      SourceRuns.forget(runId)
  }
}

object ExecutorEndpoint {
  val Name = "laneshift-executor"
}
