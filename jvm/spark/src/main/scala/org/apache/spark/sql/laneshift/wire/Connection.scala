package org.apache.spark.sql.laneshift.wire

import java.net.InetSocketAddress
import java.util.concurrent.{Future => JFuture, RejectedExecutionException, TimeUnit}

import org.apache.spark.network.protocol.{Message, RpcFailure, RpcRequest, RpcResponse}

import io.netty.channel.{Channel, ChannelHandlerContext, ChannelInboundHandlerAdapter}
import io.netty.util.AttributeKey

/** A channel from its first byte to its last: until both ends have said hello only Spark's authentication and the hello pass,
  * and only for so long; from then on everything is the link's. Stands behind Spark's decoder, on the network thread.
  *
  * @param refused
  *   told if the channel ends before it was a link
  */
private[wire] final class Connection(
    channel: Channel,
    guard: FrameGuard,
    settings: LinkSettings,
    refused: (String, Throwable) => Unit
) extends ChannelInboundHandlerAdapter {
  private var link = Option.empty[NettyLink]
  private var deadline: JFuture[_] = _
  @volatile private var failure = Option.empty[Throwable]

  lazy val peer: String = channel.remoteAddress match {
    case address: InetSocketAddress => s"${address.getHostString}:${address.getPort}"
    case other => String.valueOf(other)
  }

  /** What ended this connection, before it was a link. */
  def whyRefused: Option[Throwable] = failure

  /** Makes a link of it. What `listenerOf` throws is thrown, and there is none. */
  def open(peer: String, listenerOf: Link => LinkListener): Link = {
    val opened = new NettyLink(channel, peer, guard, settings)
    val listener = listenerOf(opened)
    guard.allow(FrameGuard.limitFor(settings.maxMessageBytes))
    deadline.cancel(false)
    link = Some(opened)
    opened.open(listener)
    opened
  }

  /** Closes the link in order, if it is one. */
  def close(reason: String): Unit =
    try channel.eventLoop().execute(() => link.fold[Unit](channel.close())(_.close(reason)))
    catch {
      case _: RejectedExecutionException => ()
    } // the network threads have ended, and with them all channels

  /** Ends it for what the other end did, or did not do. */
  def fail(cause: Throwable): Unit = link match {
    case Some(open) => open.lose(cause)
    case None =>
      if (failure.isEmpty) {
        failure = Some(cause)
        refused(peer, cause)
      }
      channel.close()
  }

  override def channelActive(context: ChannelHandlerContext): Unit = {
    val expire: Runnable = () =>
      if (link.isEmpty) fail(new LinkException(s"It said no hello within ${settings.timeoutMs} ms"))
    deadline = context.executor.schedule(expire, settings.timeoutMs, TimeUnit.MILLISECONDS)
    context.fireChannelActive()
  }

  override def channelRead(context: ChannelHandlerContext, data: Any): Unit = data match {
    case message: Message if link.isDefined => link.foreach(_.handle(message))
    case message @ (_: RpcRequest | _: RpcResponse | _: RpcFailure) if failure.isEmpty =>
      context.fireChannelRead(message)
    case message: Message =>
      if (message.body() != null) message.body().release()
      fail(new LinkException(s"It began with a message of type ${message.`type`()}"))
    case other => context.fireChannelRead(other)
  }

  override def channelInactive(context: ChannelHandlerContext): Unit = {
    fail(new LinkException("The other end has closed the connection, and not said why"))
    if (deadline != null) deadline.cancel(false)
    context.fireChannelInactive()
  }

  override def exceptionCaught(context: ChannelHandlerContext, cause: Throwable): Unit = fail(cause)
}

private[wire] object Connection {
  private val key = AttributeKey.valueOf[Connection](classOf[Connection].getName)

  def of(channel: Channel): Connection = channel.attr(key).get

  def bind(channel: Channel, connection: Connection): Unit = channel.attr(key).set(connection)
}
