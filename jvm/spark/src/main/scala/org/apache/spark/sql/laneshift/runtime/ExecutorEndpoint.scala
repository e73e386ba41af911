package org.apache.spark.sql.laneshift.runtime

import scala.util.control.NonFatal

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

  /** `Seq[Either[String, Option[T]]]`: what each command answers with, none if its partition is not here; Left is what it has
    * thrown.
    */
  final case class OfPartitions(commands: Seq[PartitionCommand[_]]) extends ExecutorRequest

  /** `(String, Int)`: host and port at which lanes that others want here are reached. */
  case object HostAt extends ExecutorRequest

  /** `Seq[(Long, HandoffRecord)]`: the newest of some runs, or of all. */
  final case class Handoffs(limit: Int, runIds: Option[Set[String]]) extends ExecutorRequest

  /** `Map[String, Long]` as [[SourceRuns.rows]]. */
  case object SourceRows extends ExecutorRequest

  /** `Unit`: readers of the run's source are held back for a while. */
  final case class LimitSource(runId: String, rate: Double, seconds: Double) extends ExecutorRequest

  /** `Unit`: the run has ended. */
  final case class Forget(runId: String) extends ExecutorRequest
}

/** What the driver asks of one partition, which answers with a `T`. */
sealed trait PartitionCommand[T] {
  def key: OperatorKey
  def partition: Int
}

object PartitionCommand {

  /** Without `elsewhere` what is wanted on other executors stays so. */
  final case class SetLanes(
      key: OperatorKey,
      partition: Int,
      lanes: Int,
      elsewhere: Option[Map[HostAddress, Int]]
  ) extends PartitionCommand[Applied]

  /** How many lanes on another executor the partition has given up. */
  final case class Leave(key: OperatorKey, partition: Int, executorId: String, lanes: Int, why: String)
      extends PartitionCommand[Int]

  /** As [[ElasticPartition.moveShard]]. */
  final case class MoveShard(key: OperatorKey, partition: Int, shard: Int, lane: Int)
      extends PartitionCommand[Either[String, (Int, Applied)]]

  /** Its balancer rests for so long. */
  final case class RestBalancer(key: OperatorKey, partition: Int, seconds: Double)
      extends PartitionCommand[Unit]
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
    case OfPartitions(commands) =>
      commands.map(command =>
        try Right(answer(command))
        catch { case NonFatal(problem) => Left(problem.toString) }
      )
    case HostAt => runtime.hostLanes.address()
    case Handoffs(limit, runIds) => runtime.history.newest(limit)(h => runIds.forall(_(h.key.runId)))
    case SourceRows => SourceRuns.rows
    case LimitSource(runId, rate, seconds) => SourceRuns.limit(runId, rate, seconds)
    case Forget(runId) =>
      runtime.forget(runId)
      SourceRuns.forget(runId)
  }

  private def answer(command: PartitionCommand[_]): Option[Any] = {
    import command.{key, partition}
    def found = runtime.find(key, partition)
    command match {
      case PartitionCommand.SetLanes(_, _, lanes, elsewhere) =>
        runtime.setLanes(key, partition, lanes, elsewhere)
      case PartitionCommand.Leave(_, _, executorId, lanes, why) => found.map(_.leave(executorId, lanes, why))
      case PartitionCommand.MoveShard(_, _, shard, lane) => found.map(_.moveShard(shard, lane))
      case PartitionCommand.RestBalancer(_, _, seconds) => found.map(_.restBalancer(seconds))
    }
  }
}

object ExecutorEndpoint {
  val Name = "laneshift-executor"
}
