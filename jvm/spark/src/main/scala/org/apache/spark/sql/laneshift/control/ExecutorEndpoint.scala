package org.apache.spark.sql.laneshift.control

import org.apache.spark.rpc.{IsolatedThreadSafeRpcEndpoint, RpcCallContext, RpcEndpointRef, RpcEnv}
import org.apache.spark.sql.laneshift.plan.OperatorKey

/** An executor's plugin tells the driver's that it is there, and where it can be asked. */
final case class ExecutorHello(id: String, host: String, version: String, ref: RpcEndpointRef)

/** What the driver asks of an executor; the comment is what it answers with. */
sealed trait ExecutorRequest

object ExecutorRequest {

  /** `Seq[PartitionView]` */
  case object Partitions extends ExecutorRequest

  /** `Option[Applied]`; none if the partition is not here. */
  final case class SetLanes(key: OperatorKey, partition: Int, lanes: Int) extends ExecutorRequest

  /** `Option[Either[String, (Int, Applied)]]` as [[ElasticPartition.moveShard]]; none if the partition is not here. */
  final case class MoveShard(key: OperatorKey, partition: Int, shard: Int, lane: Int) extends ExecutorRequest

  /** `Seq[(Long, HandoffRecord)]`: the newest of some runs, or of all. */
  final case class Handoffs(limit: Int, runIds: Option[Set[String]]) extends ExecutorRequest

  /** The run has ended; no answer. */
  final case class Forget(runId: String) extends ExecutorRequest
}

/** The driver's way to the elastic partitions of this process. */
final class ExecutorEndpoint(override val rpcEnv: RpcEnv, runtime: ElasticRuntime)
    extends IsolatedThreadSafeRpcEndpoint {
  import ExecutorRequest._

  override def receive: PartialFunction[Any, Unit] = { case Forget(runId) => runtime.forget(runId) }

  override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
    case Partitions => context.reply(runtime.all.map(_.view))
    case SetLanes(key, partition, lanes) => context.reply(runtime.find(key, partition).map(_.setLanes(lanes)))
    case MoveShard(key, partition, shard, lane) =>
      context.reply(runtime.find(key, partition).map(_.moveShard(shard, lane)))
    case Handoffs(limit, runIds) =>
      context.reply(runtime.history.newest(limit)(h => runIds.forall(_(h.key.runId))))
  }
}

object ExecutorEndpoint {
  val Name = "laneshift-executor"
}
