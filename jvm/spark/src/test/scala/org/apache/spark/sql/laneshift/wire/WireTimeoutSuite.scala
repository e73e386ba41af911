package org.apache.spark.sql.laneshift.wire

import java.io.ByteArrayOutputStream
import java.nio.channels.Channels

import scala.collection.mutable

import org.apache.spark.network.protocol.{MessageDecoder, MessageEncoder}
import org.apache.spark.network.util.NettyUtils

import laneshift.testing.LimitedSuite

import io.netty.buffer.{ByteBuf, Unpooled}
import io.netty.channel.{Channel, ChannelInitializer, FileRegion}
import io.netty.channel.embedded.EmbeddedChannel
import io.netty.util.concurrent.Ticker

/** How long an end waits for the other: channels without a network, whose time goes on only as a test says. */
class WireTimeoutSuite extends LimitedSuite {
  import WireTest._

  private val TimeoutMs = 1000L

  /** One end of a connection. */
  private final class End {
    private val own = settings(timeoutMs = TimeoutMs)
    private val guard = new FrameGuard(FrameGuard.StrangersLimit)
    private var connection: Connection = _
    val refusals = mutable.Buffer.empty[String]
    val notes = new Notes

    private val time = Ticker.newMockTicker()

    private val channel = {
      val handlers = new ChannelInitializer[Channel] {
        override def initChannel(channel: Channel): Unit = {
          connection =
            new Connection(channel, guard, own, (_, cause) => { refusals += cause.getMessage; () })
          // As LinkContext has them.
          channel.pipeline().addLast(
            MessageEncoder.INSTANCE,
            guard,
            NettyUtils.createFrameDecoder(),
            MessageDecoder.INSTANCE,
            connection
          )
          ()
        }
      }
      EmbeddedChannel.builder().handlers(handlers).ticker(time).build()
    }

    /** As when it has had the other's hello. */
    def greeted(): Link = connection.open("the other end", _ => notes)

    def isOpen: Boolean = channel.isOpen

    /** One by one, as beats follow each other. */
    def elapse(ms: Int): Unit = (1 to ms).foreach { _ =>
      time.advanceMillis(1)
      channel.runPendingTasks()
    }

    /** Nothing is nothing heard. */
    def hear(bytes: Array[Byte]): Unit = if (isOpen && bytes.nonEmpty) {
      channel.writeInbound(Unpooled.wrappedBuffer(bytes))
      ()
    }

    /** What it has sent since this was asked last. */
    def sent(): Array[Byte] = {
      channel.runPendingTasks()
      val bytes = new ByteArrayOutputStream
      var next = channel.readOutbound[AnyRef]()
      while (next != null) {
        next match {
          case some: ByteBuf =>
            some.readBytes(bytes, some.readableBytes)
            some.release()
          case some: FileRegion =>
            while (some.transferred < some.count)
              some.transferTo(Channels.newChannel(bytes), some.transferred)
            some.release()
          case other => fail(s"it sends $other")
        }
        next = channel.readOutbound[AnyRef]()
      }
      bytes.toByteArray
    }
  }

  private final class Pair {
    val (one, other) = (new End, new End)
    val (link, back) = (one.greeted(), other.greeted())

    /** Each hears what the other has sent, until both have said all. */
    def talk(): Unit = {
      val (ones, others) = (one.sent(), other.sent())
      other.hear(ones)
      one.hear(others)
      if (ones.nonEmpty || others.nonEmpty) talk()
    }
  }

  for ((name, drips) <- Seq("nothing" -> false, "one byte at a time" -> true))
    test(s"who says $name is closed after the time-out, and not before") {
      val end = new End
      announcing(100L).foreach { byte =>
        end.elapse(100)
        if (drips) end.hear(Array(byte))
      }
      end.elapse(99)
      assert(end.isOpen && end.refusals.isEmpty)
      end.elapse(1)
      assert(!end.isOpen && end.refusals == Seq(s"It said no hello within $TimeoutMs ms"))
      assert(end.sent().isEmpty)
    }

  test("an end that freezes after its hello is closed after the time-out, whatever is still to be sent") {
    val pair = new Pair
    import pair._
    // It answers twice, and no more.
    (1 to 2).foreach { _ =>
      one.elapse(250)
      talk()
    }
    link.send(bytes("nobody hears this"))
    // Beats are counted: the answer to the second comes before the third, after which four are silent.
    one.elapse(1249)
    assert(one.isOpen && !one.notes.isClosed)
    one.elapse(1)
    assert(!one.isOpen && one.notes.cause.exists(_.isInstanceOf[LinkTimeout]))
    assert(one.refusals.isEmpty && link.unsentBytes == 0)
    link.send(bytes("nor this"))
    assert(link.unsentBytes == 0)
  }

  test("an end that hears and never speaks is pinged once, not at each beat") {
    val pair = new Pair
    import pair._
    one.elapse(250)
    assert(one.sent().nonEmpty)
    one.elapse(500)
    assert(one.sent().isEmpty && one.isOpen)
  }

  test("a link that nobody uses stays open, longer than the time-out") {
    val pair = new Pair
    import pair._
    (1 to 50).foreach { _ =>
      Seq(one, other).foreach(_.elapse(100))
      talk()
    }
    assert(Seq(one, other).forall(end => end.isOpen && !end.notes.isClosed))
    link.send(bytes("still here"))
    talk()
    assert(other.notes.nextText() == "still here")
  }

  test("both close at a time: neither waits until the time-out") {
    val pair = new Pair
    import pair._
    link.close("here")
    back.close("there")
    talk()
    assert(Seq(one, other).forall(end => !end.isOpen && end.notes.cause.isEmpty))
  }

  test("who has said goodbye to an end that does not hear it waits until the time-out, and not longer") {
    val pair = new Pair
    import pair._
    link.close("enough")
    assert(one.sent().nonEmpty && one.notes.cause.isEmpty)
    one.elapse(999)
    assert(one.isOpen)
    one.elapse(1)
    assert(!one.isOpen)
  }
}
