package org.apache.spark.sql.laneshift.wire

import java.io.IOException
import java.nio.ByteBuffer

/** One connection to another executor, for one session. Its methods may be called on any thread, and none of them waits. */
trait Link {

  /** Who is at the other end, for messages: host:port. */
  def peer: String

  /** Sends what the buffer has left, after everything that was sent before. The bytes are the link's from now on: nobody may
    * change them. Once the link is closed nothing happens. How much may be on its way at a time is the caller's to bound.
    */
  def send(message: ByteBuffer): Unit

  /** Sends what is still to be sent and the reason, then closes: nothing is received any more, at the latest when the
    * listener's `closed` is called.
    */
  def close(reason: String): Unit

  /** Bytes of messages that were given to `send` and that the network has not taken yet. */
  def unsentBytes: Long

  /** Bytes of messages that the network has taken, and that have come, since the link was opened. */
  def sentBytes: Long
  def receivedBytes: Long
}

/** Is told of what happens on a link, on a network thread that serves other links, too: it must not wait. */
trait LinkListener {

  /** A message has come; the buffer is the listener's own, to keep or to change. An error thrown closes the link. */
  def received(message: ByteBuffer): Unit

  /** The link is closed: told once, after the last message. No cause if this end closed it, [[LinkClosed]] if the other end did
    * so on purpose, and otherwise what went wrong.
    */
  def closed(cause: Option[Throwable]): Unit
}

/** A link that cannot be opened, or is lost. */
class LinkException(message: String, cause: Throwable = null) extends IOException(message, cause)

private[wire] object LinkException {

  /** What went wrong, and by what in the first place, in one line: causes of the other end come with their traces. */
  def brief(error: Throwable): String = {
    def line(e: Throwable) = Option(e.getMessage).flatMap(_.linesIterator.nextOption()).getOrElse(e.toString)
    val root = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).toSeq.last
    val (first, last) = (line(error), line(root))
    (if (first.contains(last)) first else s"$first ($last)").take(300)
  }
}

/** The other end has closed the link, for this reason. */
final class LinkClosed(val peer: String, val reason: String)
    extends LinkException(s"$peer has closed the link: $reason")

/** Nothing was heard of the other end for too long. */
final class LinkTimeout(val peer: String, timeoutMs: Long)
    extends LinkException(s"Nothing was heard of $peer for $timeoutMs ms")
