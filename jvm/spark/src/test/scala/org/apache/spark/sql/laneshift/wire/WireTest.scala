package org.apache.spark.sql.laneshift.wire

import java.io.{DataInputStream, EOFException, IOException}
import java.net.{InetAddress, ServerSocket, Socket}
import java.nio.ByteBuffer
import java.util.concurrent.{CompletableFuture, ConcurrentLinkedQueue, LinkedBlockingQueue, TimeUnit}

import scala.jdk.CollectionConverters._

import org.scalatest.Assertions._

import org.apache.spark.{SecurityManager, SparkConf}
import org.apache.spark.network.buffer.NioManagedBuffer
import org.apache.spark.network.protocol.{Message, RpcRequest}

import io.netty.buffer.Unpooled

/** Notes what a link's listener is told. */
final class Notes extends LinkListener {
  val messages = new LinkedBlockingQueue[ByteBuffer]
  private val end = new CompletableFuture[Option[Throwable]]
  private val tooMuch = new ConcurrentLinkedQueue[String]

  override def received(message: ByteBuffer): Unit = {
    if (end.isDone) tooMuch.add("a message after the end")
    messages.add(message)
    ()
  }

  override def closed(cause: Option[Throwable]): Unit =
    if (!end.complete(cause)) { tooMuch.add("a second end"); () }

  def isClosed: Boolean = end.isDone

  /** What the link was closed with; waits for it. */
  def cause: Option[Throwable] = {
    val found = end.get(20, TimeUnit.SECONDS)
    assert(tooMuch.isEmpty, tooMuch.asScala.mkString(", "))
    found
  }

  def nextText(): String = {
    val message = messages.poll(20, TimeUnit.SECONDS)
    assert(message != null, "no message came")
    WireTest.text(message)
  }
}

/** A server with its links, as one executor's. */
final class Host(val settings: LinkSettings, onAccept: Link => Unit = _ => ()) extends AutoCloseable {
  private val accepted = new LinkedBlockingQueue[(Link, Notes)]

  val server = new LinkServer(
    settings,
    link => {
      onAccept(link)
      val notes = new Notes
      accepted.add(link -> notes)
      notes
    }
  )

  def address: LinkAddress = server.address

  /** The next link that it has taken. */
  def next(): (Link, Notes) = {
    val found = accepted.poll(20, TimeUnit.SECONDS)
    assert(found != null, "no link came")
    found
  }

  def hasTakenNone: Boolean = accepted.isEmpty

  override def close(): Unit = server.stop()
}

/** Passes bytes between a client and a server, and keeps them. */
final class Tap(port: Int) extends AutoCloseable {
  private val listening = new ServerSocket(0, 5, InetAddress.getLoopbackAddress)
  private val sockets = new ConcurrentLinkedQueue[Socket]
  private val seen = new java.io.ByteArrayOutputStream

  @volatile var isFrozen = false

  def address: LinkAddress = LinkAddress("127.0.0.1", listening.getLocalPort)

  def bytes: Array[Byte] = seen.synchronized(seen.toByteArray)

  private def run(work: => Unit): Unit = {
    val thread = new Thread(() =>
      try work
      catch { case _: IOException => () }
    )
    thread.setDaemon(true)
    thread.start()
  }

  private def pass(from: Socket, to: Socket): Unit = {
    val buffer = new Array[Byte](65536)
    var n = from.getInputStream.read(buffer)
    while (n >= 0) {
      while (isFrozen) Thread.sleep(10)
      seen.synchronized(seen.write(buffer, 0, n))
      to.getOutputStream.write(buffer, 0, n)
      n = from.getInputStream.read(buffer)
    }
    to.close()
  }

  run {
    while (true) {
      val client = listening.accept()
      val server = new Socket(InetAddress.getLoopbackAddress, port)
      sockets.add(client)
      sockets.add(server)
      run(pass(client, server))
      run(pass(server, client))
    }
  }

  /** As if the cable were cut. */
  override def close(): Unit = {
    listening.close()
    sockets.forEach(_.close())
  }
}

object WireTest {

  def bytes(text: String): ByteBuffer = ByteBuffer.wrap(text.getBytes("UTF-8"))

  def text(message: ByteBuffer): String = {
    val bytes = new Array[Byte](message.remaining)
    message.duplicate().get(bytes)
    new String(bytes, "UTF-8")
  }

  def settings(
      options: Map[String, String] = Map.empty,
      application: String = "app-1",
      version: String = "1.2.3",
      timeoutMs: Long = 10000L,
      maxMessageBytes: Int = 1 << 20
  ): LinkSettings = {
    val conf = new SparkConf(false).setAll(options)
    LinkSettings(
      conf,
      new SecurityManager(conf),
      "localhost",
      "127.0.0.1",
      application,
      version,
      timeoutMs,
      maxMessageBytes
    )
  }

  /** Runs `body` with a server, and with the client of another executor. */
  def withPair[T](server: LinkSettings, client: LinkSettings)(body: (Host, Links) => T): T = {
    val host = new Host(server)
    val links = new Links(client)
    try body(host, links)
    finally {
      links.stop()
      host.close()
    }
  }

  /** One message as Spark's protocol has it. */
  def frame(message: Message): Array[Byte] = {
    val body = if (message.body() == null) ByteBuffer.allocate(0) else message.body().nioByteBuffer()
    val out = Unpooled.buffer()
    out.writeLong(8L + 1L + message.encodedLength() + body.remaining)
    message.`type`().encode(out)
    message.encode(out)
    out.writeBytes(body)
    val bytes = new Array[Byte](out.readableBytes)
    out.readBytes(bytes)
    bytes
  }

  /** The beginning of a request's frame: its length and its type. */
  def announcing(length: Long): Array[Byte] = ByteBuffer.allocate(9).putLong(length).put(3.toByte).array

  def request(body: ByteBuffer): Message = new RpcRequest(7L, new NioManagedBuffer(body))

  /** A plain connection of somebody who is not us. */
  def withStranger[T](address: LinkAddress)(body: Socket => T): T = {
    val socket = new Socket("127.0.0.1", address.port)
    socket.setSoTimeout(20000)
    try body(socket)
    finally socket.close()
  }

  /** Waits until the other end has closed the connection; what it sent before. */
  def readToEnd(socket: Socket): Array[Byte] = {
    val out = new java.io.ByteArrayOutputStream
    try socket.getInputStream.transferTo(out)
    catch { case e: IOException if !e.isInstanceOf[java.net.SocketTimeoutException] => () } // reset
    out.toByteArray
  }

  /** Reads one frame: its type and what follows. */
  def readFrame(socket: Socket): (Int, Array[Byte]) = {
    val in = new DataInputStream(socket.getInputStream)
    val length = in.readLong() - 9
    if (length < 0 || length > 1000000) throw new EOFException(s"a frame of $length bytes")
    val kind = in.readByte().toInt
    val rest = new Array[Byte](length.toInt)
    in.readFully(rest)
    kind -> rest
  }

  /** Network threads of links that live. */
  def threads: Seq[Thread] =
    Thread.getAllStackTraces.keySet.asScala.toSeq.filter(_.getName.matches(
      "laneshift-(boss|server|client)-.*"
    ))
}
