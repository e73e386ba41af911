package org.apache.spark.sql.laneshift.wire

import java.nio.ByteBuffer
import java.util.concurrent.{ConcurrentLinkedQueue, RejectedExecutionException}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong, AtomicReference}

import org.apache.spark.network.buffer.NioManagedBuffer
import org.apache.spark.network.protocol.{OneWayMessage, RpcFailure}

import io.netty.channel.{Channel, ChannelFuture}

/** What a link has to send. All writing is done by turns on the network thread: so the order is that of the calls, also of those
  * that come from that thread.
  *
  * @param left
  *   called on the network thread when everything is written, the reason for leaving last
  */
private[wire] final class Outbox(channel: Channel, left: () => Unit) {
  import Outbox.MessagesPerTurn

  private val waiting = new ConcurrentLinkedQueue[ByteBuffer]
  private val turnIsDue = new AtomicBoolean
  private val unsent = new AtomicLong
  private val sent = new AtomicLong

  /** Why this end leaves, once it does. */
  private val goodbye = new AtomicReference[String]
  @volatile private var isClosed = false

  def unsentBytes: Long = unsent.get
  def sentBytes: Long = sent.get

  def add(message: ByteBuffer): Unit = if (goodbye.get == null && !isClosed) {
    // A view of its own: the caller's position may move on.
    val bytes = message.slice()
    unsent.addAndGet(bytes.remaining.toLong)
    waiting.add(bytes)
    askForTurn()
    if (isClosed) discard()
  }

  /** Takes no more, sends what is there, and the reason as the last. */
  def leave(reason: String): Unit = if (goodbye.compareAndSet(null, reason)) askForTurn()

  /** Takes and sends no more. */
  def close(): Unit = {
    isClosed = true
    discard()
  }

  private def askForTurn(): Unit = if (turnIsDue.compareAndSet(false, true))
    try channel.eventLoop().execute(() => turn())
    catch {
      case _: RejectedExecutionException => close()
    } // the network threads have ended, and with them all links

  private def turn(): Unit = {
    turnIsDue.set(false)
    if (!isClosed) {
      var count = 0
      var next = waiting.poll()
      while (next != null) {
        write(next)
        count += 1
        next = if (count < MessagesPerTurn) waiting.poll() else null
      }
      if (count == MessagesPerTurn) askForTurn()
      else if (goodbye.get != null) {
        channel.write(new RpcFailure(0L, goodbye.get))
        left()
      }
      channel.flush()
    }
  }

  private def write(bytes: ByteBuffer): Unit = {
    val size = bytes.remaining.toLong
    channel.write(new OneWayMessage(new NioManagedBuffer(bytes))).addListener { (future: ChannelFuture) =>
      unsent.addAndGet(-size)
      if (future.isSuccess) sent.addAndGet(size)
    }
  }

  private def discard(): Unit = {
    var next = waiting.poll()
    while (next != null) {
      unsent.addAndGet(-next.remaining.toLong)
      next = waiting.poll()
    }
  }
}

private object Outbox {

  /** After so many, the thread's other links have a turn. */
  private val MessagesPerTurn = 64
}
