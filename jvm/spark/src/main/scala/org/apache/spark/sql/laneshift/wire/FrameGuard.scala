package org.apache.spark.sql.laneshift.wire

import io.netty.buffer.ByteBuf
import io.netty.channel.{ChannelHandlerContext, ChannelInboundHandlerAdapter}

/** Stands before Spark's frame decoder, which gathers up to 2 GB for whoever announces them: looks at each frame's length, and
  * lets nothing through from a frame on that is too long or none at all. Runs on the channel's network thread.
  */
private[wire] final class FrameGuard(firstLimit: Long) extends ChannelInboundHandlerAdapter {
  import FrameGuard.LengthBytes

  private var limit = firstLimit
  private var isRefused = false

  /** What has come of the length that comes next, and what is left of the frame that comes now. */
  private var length = 0L
  private var lengthBytes = 0
  private var frameLeft = 0L

  private var heard = false

  def allow(bytes: Long): Unit = limit = bytes

  /** Whether anything has come since this was asked last. */
  def hasHeard(): Boolean = {
    val answer = heard
    heard = false
    answer
  }

  override def channelRead(context: ChannelHandlerContext, data: Any): Unit = data match {
    case bytes: ByteBuf =>
      heard = true
      if (!isRefused && pass(bytes)) context.fireChannelRead(bytes)
      else {
        bytes.release()
        if (!isRefused) {
          isRefused = true
          context.fireExceptionCaught(
            new LinkException(
              s"It announces a frame of $length bytes; allowed are ${LengthBytes + 1} to $limit"
            )
          )
        }
      }
    case other => context.fireChannelRead(other)
  }

  /** Walks over the bytes without taking them; false at a length that is not allowed. */
  private def pass(bytes: ByteBuf): Boolean = {
    var at = bytes.readerIndex
    var allowed = true
    while (allowed && at < bytes.writerIndex)
      if (frameLeft > 0) {
        val step = math.min(frameLeft, (bytes.writerIndex - at).toLong).toInt
        frameLeft -= step
        at += step
      } else {
        length = (if (lengthBytes == 0) 0L else length << 8) | (bytes.getByte(at) & 0xffL)
        lengthBytes += 1
        at += 1
        if (lengthBytes == LengthBytes) {
          allowed = length > LengthBytes && length <= limit
          frameLeft = length - LengthBytes
          lengthBytes = 0
        }
      }
    allowed
  }
}

private[wire] object FrameGuard {

  /** A frame begins with its length, which counts these bytes, too. */
  private val LengthBytes = 8

  /** Frames of an end that has not said who it is. Spark's authentication needs a few hundred bytes. */
  val StrangersLimit: Long = 64L << 10

  /** Frames that carry messages of that size. */
  def limitFor(messageBytes: Int): Long = messageBytes + 1024L
}
