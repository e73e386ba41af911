package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.{ConcurrentLinkedQueue, TimeoutException}

import scala.concurrent.{Future, Promise}
import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag

import org.apache.spark.SparkConf
import org.apache.spark.rpc.{RpcAddress, RpcEndpointRef, RpcTimeout}
import org.apache.spark.sql.laneshift.conf.BuildInfo
import org.apache.spark.sql.laneshift.lane.HostAddress
import org.apache.spark.sql.laneshift.runtime.{
  Applied,
  ExecutorHello,
  ExecutorRequest,
  ExecutorView,
  PartitionCommand,
  PartitionView
}
import org.apache.spark.sql.laneshift.spec.OperatorKey
import org.apache.spark.sql.laneshift.wire.RpcBytes

/** An executor that has these partitions, and answers or not as a test wants. */
final class FakeExecutor(id: String, views: Seq[PartitionView] = Nil) extends RpcEndpointRef(new SparkConf) {
  @volatile var mood: FakeExecutor.Mood = FakeExecutor.Answers
  @volatile var said: ExecutorView = ExecutorView.idle
  @volatile private var here = views

  /** Those that its tasks hold. */

  private def setLanes(
      key: OperatorKey,
      index: Int,
      lanes: Int,
      elsewhere: Option[Map[HostAddress, Int]]
  ): Option[Applied] = {
    val (mine, others) = here.partition(v => v.spec.key == key && v.index == index)
    here = others ++ mine.map { v =>
      val wanted =
        elsewhere.fold(v.wantedElsewhere)(_.toSeq.map { case (host, n) => host.executorId -> n }.sorted)
      v.copy(wantedLanes = lanes, wantedElsewhere = wanted)
    }
    mine.headOption.map(_ => Applied.Now)
  }

  /** A partition gives up its lanes elsewhere by itself. */
  def forgetWishes(): Unit = here = here.map(_.copy(wantedElsewhere = Nil, elsewhereNote = Some("lost")))

  /** What partitions are to have elsewhere. */
  def wishes: Seq[(Int, Map[String, Int])] =
    here.map(v => v.index -> v.wantedElsewhere.toMap).filter(_._2.nonEmpty).sortBy(_._1)

  private val pending = new ConcurrentLinkedQueue[() => Unit]
  private val requests = new ConcurrentLinkedQueue[ExecutorRequest]

  /** What it was asked so far. */
  def asked: Seq[ExecutorRequest] = requests.asScala.toSeq

  /** Answers, now and in arrears. */
  def answerAll(): Unit = {
    mood = FakeExecutor.Answers
    Iterator.continually(pending.poll()).takeWhile(_ != null).foreach(_.apply())
  }

  def register(directory: ExecutorDirectory): this.type = {
    directory.register(ExecutorHello(id, "host", BuildInfo.version, this))
    this
  }

  override def ask[T: ClassTag](message: Any, timeout: RpcTimeout): Future[T] = {
    val request = RpcBytes.read[ExecutorRequest](message.asInstanceOf[Array[Byte]])
    requests.add(request)
    val promise = Promise[T]()
    def answer(): Unit = promise.success(RpcBytes.of(reply(request)).asInstanceOf[T])
    mood match {
      case FakeExecutor.Answers => answer()
      case FakeExecutor.Silent => pending.add(() => answer())
      case FakeExecutor.TimesOut => promise.failure(new TimeoutException("as Spark's RPC says it"))
      case FakeExecutor.Throws(error) => throw error
    }
    promise.future
  }

  private def reply(request: ExecutorRequest): Any = request match {
    case ExecutorRequest.Partitions => here
    case ExecutorRequest.Executor => said
    case ExecutorRequest.OfPartitions(commands) =>
      commands.map {
        case PartitionCommand.Leave(_, _, _, lanes, _) => Right(Some(math.min(lanes, 2)))
        case PartitionCommand.SetLanes(key, index, lanes, elsewhere) =>
          Right(setLanes(key, index, lanes, elsewhere))
        case other => Left(s"no answer to $other")
      }
    case ExecutorRequest.HostAt => ("host", 1)
    case _: ExecutorRequest.Handoffs => Nil
    case ExecutorRequest.SourceRows => Map.empty
    case _ => ()
  }

  override def address: RpcAddress = RpcAddress("host", 1)
  override def name: String = id
  override def send(message: Any): Unit = throw new UnsupportedOperationException
}

object FakeExecutor {
  sealed trait Mood
  case object Answers extends Mood
  case object Silent extends Mood
  case object TimesOut extends Mood
  final case class Throws(error: Throwable) extends Mood
}
