package org.apache.spark.sql.laneshift.wire

import java.nio.ByteBuffer
import java.util.concurrent.TimeUnit

import scala.util.Random

import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Seconds, Span}

import laneshift.testing.{Deep, LimitedSuite}

/** Two ends that mean well: what is sent comes, in order, and both see the end. */
class WireSuite extends LimitedSuite with Eventually {
  import WireTest._

  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(20, Seconds), Span(20, Millis))

  /** Sends `count` messages, each with the sender's number, its own and content that follows from both. */
  private def sendAll(link: Link, sender: Int, count: Int): Unit = {
    val random = new Random(sender)
    (0 until count).foreach { i =>
      val message = ByteBuffer.allocate(8 + random.nextInt(if (i % 100 == 0) 100000 else 500))
      message.putInt(sender).putInt(i)
      while (message.hasRemaining) message.put((sender * 31 + i).toByte)
      link.send(message.flip())
    }
  }

  private def checkAll(notes: Notes, senders: Int, count: Int): Unit = {
    val next = Array.fill(senders)(0)
    (0 until senders * count).foreach { _ =>
      val message = notes.messages.poll(20, TimeUnit.SECONDS)
      assert(message != null, s"only ${next.mkString(", ")} messages came")
      val (sender, number) = (message.getInt(), message.getInt())
      assert(number == next(sender), s"of sender $sender")
      while (message.hasRemaining) assert(message.get() == (sender * 31 + number).toByte)
      next(sender) += 1
    }
    assert(notes.messages.isEmpty)
  }

  test("messages of several threads come in order, in both directions") {
    withPair(settings(), settings()) { (host, links) =>
      val notes = new Notes
      val link = links.connect("localhost", host.address.port, notes)
      val (back, backNotes) = host.next()
      val (senders, count) = (4, 1500)
      val threads = Seq(link, back).flatMap { l =>
        (0 until senders).map(s => new Thread(() => sendAll(l, s, count)))
      }
      threads.foreach(_.start())
      checkAll(notes, senders, count)
      checkAll(backNotes, senders, count)
      threads.foreach(_.join())
      Seq(link, back).foreach(l => eventually(assert(l.unsentBytes == 0)))
      assert(
        link.sentBytes > 0 && back.receivedBytes == link.sentBytes && link.receivedBytes == back.sentBytes
      )
      assert(link.peer == s"localhost:${host.address.port}" && back.peer.startsWith("127.0.0.1:"))
    }
  }

  test("an answer from the network thread comes after what was sent before it") {
    withPair(settings(), settings()) { (host, links) =>
      var link: Link = null
      val notes = new Notes
      val answering = new LinkListener {
        override def received(message: ByteBuffer): Unit = link.send(message)
        override def closed(cause: Option[Throwable]): Unit = notes.closed(cause)
      }
      link = links.connect("localhost", host.address.port, answering)
      val (back, backNotes) = host.next()
      (1 to 1000).foreach { i =>
        link.send(bytes(s"before $i"))
        back.send(bytes(s"after $i"))
      }
      val came = Seq.fill(2000)(backNotes.nextText())
      assert(came.filter(_.startsWith("before")) == (1 to 1000).map(i => s"before $i"))
      assert(came.filter(_.startsWith("after")) == (1 to 1000).map(i => s"after $i"))
    }
  }

  test("a buffer that was sent may be read on, and one that has come may be kept") {
    withPair(settings(), settings()) { (host, links) =>
      val link = links.connect("localhost", host.address.port, new Notes)
      val (_, notes) = host.next()
      val message = bytes("xxhelloyy")
      message.position(2).limit(7)
      link.send(message)
      message.clear()
      link.send(ByteBuffer.allocateDirect(5).put("world".getBytes).flip())
      link.send(ByteBuffer.allocate(0))
      val came = Seq.fill(3)(notes.messages.poll(20, TimeUnit.SECONDS))
      assert(came.map(text) == Seq("hello", "world", ""))
      assert(came.forall(_.hasArray))
    }
  }

  test("a message that is too long is refused where it is sent") {
    withPair(settings(maxMessageBytes = 1000), settings(maxMessageBytes = 1000)) { (host, links) =>
      val link = links.connect("localhost", host.address.port, new Notes)
      val (_, notes) = host.next()
      val error = intercept[IllegalArgumentException](link.send(ByteBuffer.allocate(1001)))
      assert(error.getMessage.contains("1001") && error.getMessage.contains("1000"))
      link.send(ByteBuffer.allocate(1000))
      assert(notes.messages.poll(20, TimeUnit.SECONDS).remaining == 1000)
      assert(link.unsentBytes == 0 || !notes.isClosed)
    }
  }

  Seq("client", "server").foreach { side =>
    test(s"the $side closes: both see it, what was sent before comes, and nothing afterwards") {
      withPair(settings(), settings()) { (host, links) =>
        val notes = new Notes
        val link = links.connect("localhost", host.address.port, notes)
        val (back, backNotes) = host.next()
        val (closing, closingNotes, other, otherNotes) =
          if (side == "client") (link, notes, back, backNotes) else (back, backNotes, link, notes)
        (1 to 200).foreach(i => closing.send(bytes(s"$i " + "x" * 10000)))
        closing.close("enough")
        closing.send(bytes("too late"))
        closing.close("again")
        assert(closingNotes.cause.isEmpty)
        otherNotes.cause match {
          case Some(closed: LinkClosed) => assert(closed.reason == "enough" && closed.peer == other.peer)
          case cause => fail(s"closed with $cause")
        }
        assert(otherNotes.messages.size == 200)
        other.send(bytes("nobody is there"))
        other.close("nobody is there")
        Seq(link, back).foreach(l => eventually(assert(l.unsentBytes == 0)))
        assert(notes.cause.isDefined != backNotes.cause.isDefined)
      }
    }
  }

  test("a listener that fails closes its link, with what it threw") {
    withPair(settings(), settings()) { (host, links) =>
      val notes = new Notes
      val failing = new LinkListener {
        override def received(message: ByteBuffer): Unit = throw new IllegalStateException("no room")
        override def closed(cause: Option[Throwable]): Unit = notes.closed(cause)
      }
      links.connect("localhost", host.address.port, failing)
      val (back, backNotes) = host.next()
      back.send(bytes("hello"))
      assert(notes.cause.exists(_.getMessage.contains("no room")))
      assert(backNotes.cause.isDefined)
    }
  }

  test("a connection that is cut is seen at both ends") {
    withPair(settings(), settings()) { (host, links) =>
      val tap = new Tap(host.address.port)
      val notes = new Notes
      links.connect("localhost", tap.address.port, notes)
      val (_, backNotes) = host.next()
      tap.close()
      Seq(notes, backNotes).foreach(n => assert(n.cause.exists(!_.isInstanceOf[LinkClosed])))
    }
  }

  test(
    "a network that falls silent is seen at both ends after the time-out, whatever is still to be sent",
    Deep.Speed
  ) {
    withPair(settings(timeoutMs = 1000), settings(timeoutMs = 1000)) { (host, links) =>
      val tap = new Tap(host.address.port)
      try {
        val notes = new Notes
        val link = links.connect("localhost", tap.address.port, notes)
        val (back, backNotes) = host.next()
        tap.isFrozen = true
        (1 to 100).foreach(_ => link.send(ByteBuffer.allocate(1 << 20)))
        Thread.sleep(100)
        assert(link.unsentBytes > 0)
        Seq(notes, backNotes).foreach(n => assert(n.cause.exists(_.isInstanceOf[LinkTimeout])))
        Seq(link, back).foreach(l => eventually(assert(l.unsentBytes == 0)))
        assert(link.sentBytes < (100L << 20))
      } finally tap.close()
    }
  }

  test("nobody listens there: an error that says where") {
    val links = new Links(settings())
    try {
      val free = new java.net.ServerSocket(0)
      val port = free.getLocalPort
      free.close()
      val error = intercept[LinkException](links.connect("localhost", port, new Notes))
      assert(error.getMessage.contains(s"There is no link to localhost:$port: "), error)
      val unknown = intercept[LinkException](links.connect("no.such.host.invalid", 1, new Notes))
      assert(unknown.getMessage.contains("no.such.host.invalid:1"), unknown)
    } finally links.stop()
  }

  test("stopping closes every link and leaves no thread") {
    // The shared session's own and those of tests before this one are none of ours.
    val others = threads.toSet
    def ours = threads.filterNot(others)
    val host = new Host(settings())
    val links = new Links(settings())
    assert(ours.isEmpty, "the server runs before anybody asks for its address")
    val (address, again) = (host.address, host.address)
    assert(address == again && address.host == "localhost")
    val notes = Seq.fill(10) {
      val own = new Notes
      links.connect(address.host, address.port, own)
      (own, host.next()._2)
    }
    assert(ours.nonEmpty && ours.forall(_.isDaemon))
    assert(ours.size <= 5, ours.map(_.getName).mkString(", "))
    host.close()
    notes.foreach { case (own, back) =>
      assert(back.cause.isEmpty)
      assert(own.cause.exists(_.isInstanceOf[LinkClosed]), own.cause)
    }
    links.stop()
    eventually(assert(ours.isEmpty))
    assert(intercept[LinkException](host.address).getMessage.contains("stopped"))
    assert(intercept[LinkException](links.connect("localhost", 1, new Notes)).getMessage.contains("stopped"))
    links.stop()
    host.close()
  }
}
