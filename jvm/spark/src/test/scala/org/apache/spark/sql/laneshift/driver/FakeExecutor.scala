package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.{ConcurrentLinkedQueue, TimeoutException}

import scala.concurrent.{Future, Promise}
import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag

import org.apache.spark.SparkConf
import org.apache.spark.rpc.{RpcAddress, RpcEndpointRef, RpcTimeout}
import org.apache.spark.sql.laneshift.conf.BuildInfo
import org.apache.spark.sql.laneshift.runtime.{ExecutorHello, ExecutorRequest, ExecutorView, PartitionView}
import org.apache.spark.sql.laneshift.wire.RpcBytes

/** An executor that has these partitions, and answers or not as a test wants. */
final class FakeExecutor(id: String, views: Seq[PartitionView] = Nil) extends RpcEndpointRef(new SparkConf) {
  @volatile var mood: FakeExecutor.Mood = FakeExecutor.Answers
  @volatile var said: ExecutorView = ExecutorView.idle
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
    case ExecutorRequest.Partitions => views
    case ExecutorRequest.Executor => said
    case ExecutorRequest.Leave(_, _, _, lanes, _) => Some(math.min(lanes, 2))
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
