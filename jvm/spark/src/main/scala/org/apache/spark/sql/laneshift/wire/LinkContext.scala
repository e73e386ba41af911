package org.apache.spark.sql.laneshift.wire

import java.nio.ByteBuffer
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.network.TransportContext
import org.apache.spark.network.client.{RpcResponseCallback, TransportClient}
import org.apache.spark.network.server.{
  OneForOneStreamManager,
  RpcHandler,
  StreamManager,
  TransportChannelHandler
}
import org.apache.spark.network.util.TransportFrameDecoder

import io.netty.channel.{Channel, ChannelFuture}
import io.netty.channel.socket.SocketChannel

/** Spark's way to set up a channel, with our guards in it, and the connections that are open. */
private[wire] final class LinkContext(
    settings: LinkSettings,
    handler: RpcHandler,
    firstFrameLimit: Long,
    refused: (String, Throwable) => Unit
) extends TransportContext(settings.transport, handler, false, true) {
  private val open = ConcurrentHashMap.newKeySet[Channel]

  override def initializePipeline(
      channel: SocketChannel,
      channelHandler: RpcHandler,
      isClient: Boolean
  ): TransportChannelHandler = {
    val made = super.initializePipeline(channel, channelHandler, isClient)
    val guard = new FrameGuard(firstFrameLimit)
    val connection = new Connection(channel, guard, settings, refused)
    Connection.bind(channel, connection)
    // Authentication and TLS put their own before all others, so that the guard sees what they have decrypted.
    channel.pipeline()
      .addBefore(TransportFrameDecoder.HANDLER_NAME, "laneshiftFrameGuard", guard)
      .addAfter("decoder", "laneshiftConnection", connection)
    open.add(channel)
    channel.closeFuture().addListener((_: ChannelFuture) => open.remove(channel))
    made
  }

  /** Closes all links in order, and waits a moment for the other ends to have heard it. */
  def leaveAll(reason: String): Unit = {
    val deadline = System.nanoTime() + LinkContext.PatienceNs
    val channels = open.asScala.toSeq
    channels.foreach(c => if (c.isRegistered) Connection.of(c).close(reason))
    channels.foreach(_.closeFuture().awaitUninterruptibly(deadline - System.nanoTime(), TimeUnit.NANOSECONDS))
  }
}

private object LinkContext {
  private val PatienceNs = TimeUnit.SECONDS.toNanos(1)
}

/** Takes the hello, the one thing that Spark's layers ask of us: what comes later is the link's. */
private[wire] final class HelloHandler(take: (Connection, ByteBuffer, RpcResponseCallback) => Unit)
    extends RpcHandler {
  private val streams = new OneForOneStreamManager

  override def receive(client: TransportClient, message: ByteBuffer, callback: RpcResponseCallback): Unit =
    take(Connection.of(client.getChannel), message, callback)

  override def getStreamManager: StreamManager = streams
}

/** Around Spark's authentication: a connection on which it fails is closed at once. */
private[wire] final class OneTry(authentication: RpcHandler) extends RpcHandler {

  override def receive(client: TransportClient, message: ByteBuffer, callback: RpcResponseCallback): Unit = {
    val once = new RpcResponseCallback {
      override def onSuccess(response: ByteBuffer): Unit = callback.onSuccess(response)

      override def onFailure(error: Throwable): Unit = {
        callback.onFailure(OneTry.failed)
        Connection.of(client.getChannel)
          .fail(new LinkException(s"It is not authenticated: ${LinkException.brief(error)}"))
      }
    }
    try authentication.receive(client, message, once)
    catch { case NonFatal(error) => once.onFailure(error) }
  }

  override def getStreamManager: StreamManager = authentication.getStreamManager
  override def channelActive(client: TransportClient): Unit = authentication.channelActive(client)
  override def channelInactive(client: TransportClient): Unit = authentication.channelInactive(client)
  override def exceptionCaught(cause: Throwable, client: TransportClient): Unit =
    authentication.exceptionCaught(cause, client)
}

private object OneTry {

  /** Spark sends the trace along: there is none. */
  private val failed = new LinkException("authentication failed") {
    override def fillInStackTrace(): Throwable = this
    override def toString: String = getMessage
  }
}
