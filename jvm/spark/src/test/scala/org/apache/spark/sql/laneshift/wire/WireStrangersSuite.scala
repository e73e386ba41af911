package org.apache.spark.sql.laneshift.wire

import java.net.{ServerSocket, Socket}
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Random

import org.apache.spark.network.buffer.NioManagedBuffer
import org.apache.spark.network.protocol.{OneWayMessage, RpcFailure, RpcResponse, StreamRequest, UploadStream}

import laneshift.testing.{Deep, LimitedSuite, Seeds}

import io.netty.buffer.{ByteBuf, Unpooled}
import io.netty.channel.{ChannelHandlerContext, ChannelInboundHandlerAdapter}
import io.netty.channel.embedded.EmbeddedChannel

/** Whoever is not another executor of the same application is not listened to, and costs nothing else. */
class WireStrangersSuite extends LimitedSuite {
  import WireTest._

  private def pair(own: LinkSettings, theirs: LinkSettings): (String, Boolean) =
    withPair(own, theirs) { (host, links) =>
      val notes = new Notes
      val error = intercept[LinkException](links.connect("localhost", host.address.port, notes))
      assert(!notes.isClosed, "a listener without a link was told of its end")
      (error.getMessage, host.hasTakenNone)
    }

  test("another version is refused, and both are named") {
    val (message, none) = pair(settings(version = "1.0"), settings(version = "2.0"))
    assert(none && message.contains("1.0") && message.contains("2.0"), message)
  }

  test("another application is refused, and not named") {
    val (message, none) = pair(settings(application = "app-secret"), settings(application = "app-other"))
    assert(none && message.contains("another application") && !message.contains("app-secret"), message)
  }

  test("a server that cannot take the link says why") {
    val host = new Host(settings(), _ => throw new IllegalStateException("no memory left"))
    val links = new Links(settings())
    try {
      val error = intercept[LinkException](links.connect("localhost", host.address.port, new Notes))
      assert(error.getMessage.contains("no memory left"))
    } finally {
      links.stop()
      host.close()
    }
  }

  private def hello(magic: Int, protocol: Int): ByteBuffer = {
    val good = settings().hello.encode
    good.putInt(0, magic).putInt(4, protocol)
  }

  private val longString = {
    val bytes = frame(new RpcFailure(1L, "x" * 20))
    ByteBuffer.wrap(bytes).putInt(17, Int.MaxValue)
    bytes
  }

  private val random = new Random(7)
  private def noise(n: Int): Array[Byte] = { val b = new Array[Byte](n); random.nextBytes(b); b }

  private val strangers: Seq[(String, Array[Byte])] = Seq(
    "a browser" -> "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".getBytes(UTF_8),
    "noise" -> noise(100000),
    "a frame of 2 GB" -> announcing(2L << 30),
    "a frame just below 2 GB" -> announcing(Int.MaxValue - 10L),
    "a frame of less than nothing" -> announcing(-5L),
    "a frame of 7 bytes" -> announcing(7L),
    "a frame of no byte" -> announcing(8L),
    "a frame that is too long before the hello" -> announcing(1L << 17),
    "an unknown type" -> (ByteBuffer.allocate(20).putLong(20L).put(99.toByte).array),
    "a type that is never sent" -> (ByteBuffer.allocate(20).putLong(20L).put(-1.toByte).array),
    "a request that is cut short in its frame" -> (ByteBuffer.allocate(12).putLong(12L).put(3.toByte).array),
    "a string that is longer than its frame" -> longString,
    "a message before the hello" -> frame(new OneWayMessage(new NioManagedBuffer(bytes("hello")))),
    "an upload" -> frame(new UploadStream(
      1L,
      new NioManagedBuffer(bytes("meta")),
      new NioManagedBuffer(bytes("data"))
    )),
    "a stream" -> frame(new StreamRequest("/etc/passwd")),
    "an empty hello" -> frame(request(ByteBuffer.allocate(0))),
    "wrong magic" -> frame(request(hello(0x12345678, Hello.Protocol))),
    "another protocol" -> frame(request(hello(Hello.Magic, 2))),
    "a hello that is cut short" -> frame(request(settings().hello.encode.limit(20))),
    "a hello that goes on" -> frame(request(
      ByteBuffer.allocate(200).put(settings().hello.encode).position(0).limit(200)
    ))
  )

  strangers.foreach { case (name, sent) =>
    test(s"$name: the connection is closed, and other links do not notice") {
      withPair(settings(timeoutMs = 60000), settings()) { (host, links) =>
        val notes = new Notes
        val link = links.connect("localhost", host.address.port, notes)
        val (_, backNotes) = host.next()
        withStranger(host.address) { socket =>
          try socket.getOutputStream.write(sent)
          catch { case _: java.io.IOException => () } // closed already
          val answer = new String(readToEnd(socket), UTF_8)
          assert(!answer.contains("app-1") && !answer.contains("1.2.3"), "it tells strangers who it is")
        }
        assert(host.hasTakenNone)
        link.send(bytes("still here"))
        assert(backNotes.nextText() == "still here" && !notes.isClosed)
      }
    }
  }

  test("who leaves in the middle of a frame leaves nothing behind") {
    withPair(settings(), settings()) { (host, links) =>
      (1 to 20).foreach { i =>
        withStranger(host.address) { socket =>
          socket.getOutputStream.write(frame(request(settings().hello.encode)).take(i * 2))
        }
      }
      links.connect("localhost", host.address.port, new Notes)
      host.next()
      assert(host.hasTakenNone)
    }
  }

  private def greet(socket: Socket): Unit = {
    socket.getOutputStream.write(frame(request(settings().hello.encode)))
    assert(readFrame(socket)._1 == 4, "no answer to the hello")
  }

  test(
    "a server that freezes after its hello is closed after the time-out; one that never says hello, too",
    Deep.Speed
  ) {
    Seq(true, false).foreach { says =>
      val listening = new ServerSocket(0)
      val thread = new Thread(() => {
        val socket = listening.accept()
        val (_, asked) = readFrame(socket)
        val id = ByteBuffer.wrap(asked).getLong
        if (says) socket.getOutputStream.write(frame(new RpcResponse(
          id,
          new NioManagedBuffer(settings().hello.encode)
        )))
      })
      thread.setDaemon(true)
      thread.start()
      val links = new Links(settings(timeoutMs = 1000))
      val notes = new Notes
      try
        if (says) {
          links.connect("localhost", listening.getLocalPort, notes)
          assert(notes.cause.exists(_.isInstanceOf[LinkTimeout]))
        } else {
          val error = intercept[LinkException](links.connect("localhost", listening.getLocalPort, notes))
          assert(error.getMessage.contains("no hello within 1000 ms"))
        }
      finally {
        links.stop()
        listening.close()
      }
    }
  }

  test("a server that is something else is no link") {
    Seq(
      "HTTP/1.1 400 Bad Request\r\n\r\n".getBytes(UTF_8),
      announcing(2L << 30),
      Array.emptyByteArray
    ).foreach { says =>
      val listening = new ServerSocket(0)
      val thread = new Thread(() => {
        val socket = listening.accept()
        readFrame(socket)
        socket.getOutputStream.write(says)
        if (says.isEmpty) socket.close()
      })
      thread.setDaemon(true)
      thread.start()
      val links = new Links(settings())
      try {
        val error = intercept[LinkException](links.connect("localhost", listening.getLocalPort, new Notes))
        assert(error.getMessage.contains(s"localhost:${listening.getLocalPort}"))
      } finally {
        links.stop()
        listening.close()
      }
    }
  }

  Seq[(String, Array[Byte])](
    "a frame of 2 GB" -> announcing(2L << 30),
    "an upload" -> frame(new UploadStream(
      1L,
      new NioManagedBuffer(bytes("m")),
      new NioManagedBuffer(bytes("d"))
    ))
  ).foreach { case (name, sent) =>
    test(s"$name on an open link closes it with a cause") {
      withPair(settings(timeoutMs = 60000), settings()) { (host, _) =>
        withStranger(host.address) { socket =>
          greet(socket)
          val (_, notes) = host.next()
          socket.getOutputStream.write(sent)
          assert(notes.cause.exists(_.isInstanceOf[LinkException]))
          readToEnd(socket)
        }
      }
    }
  }

  test(
    "a frame's length is seen wherever the network cuts, and what comes behind a bad one does not get through"
  ) {
    val seed = Seeds.first
    val random = new Random(seed)
    (1 to 300).foreach { round =>
      val limit = 1000L
      val bad = if (random.nextBoolean())
        Seq(random.nextInt(9).toLong, 1001L, 1L << 40, -1L)(random.nextInt(4))
      else 9L
      val good = Unpooled.buffer()
      (0 until random.nextInt(6)).foreach { _ =>
        val length = 9 + random.nextInt(992)
        good.writeLong(length.toLong).writeZero(length - 8)
      }
      val goodBytes = good.readableBytes
      val all = good.writeLong(bad).writeByte(1)
      var caught = Option.empty[Throwable]
      val channel = new EmbeddedChannel(
        new FrameGuard(limit),
        new ChannelInboundHandlerAdapter {
          override def exceptionCaught(context: ChannelHandlerContext, cause: Throwable): Unit = {
            assert(caught.isEmpty, "told twice")
            caught = Some(cause)
          }
        }
      )
      while (all.isReadable)
        channel.writeInbound(all.readRetainedSlice(math.min(all.readableBytes, 1 + random.nextInt(400))))
      var through = 0
      var next = channel.readInbound[ByteBuf]()
      while (next != null) {
        through += next.readableBytes
        next.release()
        next = channel.readInbound[ByteBuf]()
      }
      val clue = s"seed $seed, round $round"
      if (bad == 9L) assert(caught.isEmpty && through == goodBytes + 9, clue)
      else assert(caught.isDefined && through <= goodBytes + 8, clue)
      channel.finish()
    }
  }

  test("a hello of any bytes is decoded or refused") {
    val random = new Random(3)
    val good = settings().hello
    assert(Hello.decode(good.encode) == Right(good))
    (1 to 5000).foreach { _ =>
      val bytes = good.encode.array.take(random.nextInt(40))
      if (bytes.nonEmpty) bytes(random.nextInt(bytes.length)) = random.nextInt().toByte
      Hello.decode(ByteBuffer.wrap(bytes))
    }
  }

  test("log lines that others cause are rare, and say how many were left out") {
    var now = 0L
    val lines = collection.mutable.Buffer.empty[String]
    val log = new RareLog(10, () => now)(lines += _)
    (1 to 5).foreach(i => log(s"line $i"))
    now = 9
    log("line 6")
    now = 10
    log("line 7")
    now = 25
    log("line 8")
    assert(lines == Seq("line 1", "line 7 (5 more of the kind since the last such line)", "line 8"))
  }
}
