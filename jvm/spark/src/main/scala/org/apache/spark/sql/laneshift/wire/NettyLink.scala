package org.apache.spark.sql.laneshift.wire

import java.nio.ByteBuffer
import java.util.concurrent.{Future => JFuture, TimeUnit}

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.network.buffer.NioManagedBuffer
import org.apache.spark.network.protocol.{Message, OneWayMessage, RpcFailure, RpcRequest, RpcResponse}

import io.netty.buffer.ByteBuf
import io.netty.channel.Channel

/** A link over a channel of Spark's network library. Spark's `OneWayMessage` carries what users send; `RpcRequest` is a ping,
  * `RpcResponse` its answer, and `RpcFailure` the end, with the reason.
  *
  * Methods without `override` are for the channel's network thread.
  */
private[wire] final class NettyLink(
    channel: Channel,
    override val peer: String,
    guard: FrameGuard,
    settings: LinkSettings
) extends Link
    with Logging {
  import NettyLink.nothing

  private val outbox = new Outbox(channel, () => leave())
  private var listener: LinkListener = _
  private var beat: JFuture[_] = _
  private var isPinged = false
  private var silentBeats = 0L
  private var isEnded = false
  @volatile private var received = 0L

  override def unsentBytes: Long = outbox.unsentBytes
  override def sentBytes: Long = outbox.sentBytes
  override def receivedBytes: Long = received

  override def send(message: ByteBuffer): Unit = {
    require(
      message.remaining <= settings.maxMessageBytes,
      s"A message to $peer has ${message.remaining} bytes; allowed are ${settings.maxMessageBytes}"
    )
    outbox.add(message)
  }

  override def close(reason: String): Unit = outbox.leave(reason)

  /** Begins to listen, and to look whether the other end is alive. */
  def open(listener: LinkListener): Unit = {
    this.listener = listener
    val beatMs = settings.beatMs
    beat =
      channel.eventLoop().scheduleWithFixedDelay(() => onBeat(), beatMs, beatMs, TimeUnit.MILLISECONDS)
  }

  /** Counts beats instead of time: had this process stood still itself, the other end would not have been silent. */
  private def onBeat(): Unit = {
    silentBeats = if (guard.hasHeard()) 0 else silentBeats + 1
    if (silentBeats * settings.beatMs >= settings.timeoutMs) lose(new LinkTimeout(peer, settings.timeoutMs))
    else if (!isPinged) {
      isPinged = true
      channel.writeAndFlush(new RpcRequest(0L, nothing))
    }
  }

  def handle(message: Message): Unit =
    try message match {
        // Both ends may leave at a time.
        case _: RpcFailure if isEnded => channel.close()
        case _ if isEnded =>
        case m: OneWayMessage => receive(m)
        case m: RpcRequest => channel.writeAndFlush(new RpcResponse(m.requestId, nothing))
        case _: RpcResponse => isPinged = false
        case m: RpcFailure => lose(new LinkClosed(peer, m.errorString))
        case m => lose(new LinkException(s"$peer sent a message of type ${m.`type`()}"))
      }
    finally if (message.body() != null) message.body().release()

  private def receive(message: OneWayMessage): Unit =
    try {
      val bytes = copy(message)
      received += bytes.remaining
      listener.received(bytes)
    } catch {
      case NonFatal(error) => lose(new LinkException(s"A message of $peer cannot be taken: $error", error))
    }

  private def copy(message: OneWayMessage): ByteBuffer = message.body().convertToNetty() match {
    case body: ByteBuf =>
      try {
        val bytes = new Array[Byte](body.readableBytes)
        body.readBytes(bytes)
        ByteBuffer.wrap(bytes)
      } finally body.release()
    case other => throw new IllegalStateException(s"The body of a message is a ${other.getClass.getName}")
  }

  /** The link has come to an end that this side did not ask for. */
  def lose(cause: Throwable): Unit = {
    end(Some(cause))
    channel.close()
  }

  /** The other end closes the channel when it has read the goodbye: closing it here could lose what it has not read yet. */
  private def leave(): Unit = {
    val giveUp: Runnable = () => channel.close()
    channel.eventLoop().schedule(giveUp, settings.timeoutMs, TimeUnit.MILLISECONDS)
    end(None)
  }

  private def end(cause: Option[Throwable]): Unit = if (!isEnded) {
    isEnded = true
    beat.cancel(false)
    outbox.close()
    try listener.closed(cause)
    catch { case NonFatal(error) => logError(s"The listener of the link to $peer failed at its end.", error) }
  }
}

private object NettyLink {
  private def nothing = new NioManagedBuffer(ByteBuffer.allocate(0))
}
