package org.apache.spark.sql.laneshift.remote

import java.nio.ByteBuffer

import org.apache.spark.sql.laneshift.lane.UnsafeRowBlock

/** What home tells a host in one session (docs/handoff.md, section 11). */
private[remote] sealed trait ToHost

private[remote] object ToHost {

  /** The session, as [[SessionOpening]] in bytes, which only the class loader of the query's tasks may know how to read. */
  final case class Open(query: String, session: Array[Byte]) extends ToHost
  final case class Rows(first: Long, block: UnsafeRowBlock) extends ToHost

  /** Rows that follow are of the next input. */
  case object NextInput extends ToHost
  final case class Arrived(shards: Seq[Int]) extends ToHost
  final case class Recall(shards: Seq[Int], upTo: Long) extends ToHost

  /** To the host's question, of which there is one at a time. */
  final case class Answer(bytes: Array[Byte]) extends ToHost
  case object End extends ToHost
}

/** What a host tells home. */
private[remote] sealed trait ToHome

private[remote] object ToHome {
  case object Ready extends ToHome

  /** The body begins to read this input. */
  final case class Reads(input: Int) extends ToHome
  final case class Refused(reason: String) extends ToHome

  /** What follows from the rows up to number `covered`: state writes and outputs (or null).
    *
    * @param answers whether the host has seen the recall that it was sent
    */
  final case class Frame(covered: Long, answers: Boolean, writes: Array[Byte], outputs: UnsafeRowBlock)
      extends ToHome

  /** A read of state; it sees what frames before it wrote. */
  final case class Ask(request: Array[Byte]) extends ToHome

  /** The body has ended; what it has counted, as accumulators in bytes. */
  final case class Done(counted: Array[Byte]) extends ToHome

  /** The body has thrown this. */
  final case class Failed(error: Array[Byte]) extends ToHome
}

/** Messages as bytes: a kind, then its fields. Throws IllegalArgumentException at what is no message. */
private[remote] object Messages {

  def encode(message: ToHost): ByteBuffer = message match {
    case ToHost.Open(query, session) =>
      val name = query.getBytes("UTF-8")
      done(of('o', Integer.BYTES + name.length + session.length).putInt(name.length).put(name).put(session))
    case ToHost.Rows(first, block) =>
      val to = of('r', java.lang.Long.BYTES + block.encodedBytes)
      block.encode(to.putLong(first))
      done(to)
    case ToHost.NextInput => done(of('i', 0))
    case ToHost.Arrived(shards) => done(ints(of('a', sizeOf(shards)), shards))
    case ToHost.Recall(shards, upTo) =>
      done(ints(of('c', java.lang.Long.BYTES + sizeOf(shards)).putLong(upTo), shards))
    case ToHost.Answer(bytes) => whole('w', bytes)
    case ToHost.End => done(of('e', 0))
  }

  def encode(message: ToHome): ByteBuffer = message match {
    case ToHome.Ready => done(of('y', 0))
    case ToHome.Reads(input) => done(of('i', Integer.BYTES).putInt(input))
    case ToHome.Refused(reason) => whole('n', reason.getBytes("UTF-8"))
    case ToHome.Frame(covered, answers, writes, outputs) =>
      val size = if (outputs == null) 0 else outputs.encodedBytes
      val to = of('f', java.lang.Long.BYTES + 1 + Integer.BYTES + writes.length + size)
      to.putLong(covered).put((if (answers) 1 else 0).toByte).putInt(writes.length).put(writes)
      if (outputs != null) outputs.encode(to)
      done(to)
    case ToHome.Ask(request) => whole('q', request)
    case ToHome.Done(counted) => whole('d', counted)
    case ToHome.Failed(error) => whole('x', error)
  }

  def toHost(from: ByteBuffer): ToHost = checked(from) {
    from.get().toChar match {
      case 'o' => ToHost.Open(new String(bytes(from, from.getInt()), "UTF-8"), rest(from))
      case 'r' => ToHost.Rows(from.getLong(), UnsafeRowBlock.decode(from))
      case 'i' => ToHost.NextInput
      case 'a' => ToHost.Arrived(ints(from))
      case 'c' =>
        val upTo = from.getLong()
        ToHost.Recall(ints(from), upTo)
      case 'w' => ToHost.Answer(rest(from))
      case 'e' => ToHost.End
      case other => throw new IllegalArgumentException(s"no message to a host begins with ${other.toInt}")
    }
  }

  def toHome(from: ByteBuffer): ToHome = checked(from) {
    from.get().toChar match {
      case 'y' => ToHome.Ready
      case 'i' => ToHome.Reads(from.getInt())
      case 'n' => ToHome.Refused(new String(rest(from), "UTF-8"))
      case 'f' =>
        val covered = from.getLong()
        val answers = from.get() != 0
        val writes = bytes(from, from.getInt())
        ToHome.Frame(covered, answers, writes, if (from.hasRemaining) UnsafeRowBlock.decode(from) else null)
      case 'q' => ToHome.Ask(rest(from))
      case 'd' => ToHome.Done(rest(from))
      case 'x' => ToHome.Failed(rest(from))
      case other => throw new IllegalArgumentException(s"no message of a host begins with ${other.toInt}")
    }
  }

  private def checked[T](from: ByteBuffer)(read: => T): T = {
    val message =
      try read
      catch {
        case error: java.nio.BufferUnderflowException =>
          throw new IllegalArgumentException("a message ends too early", error)
      }
    if (from.hasRemaining) throw new IllegalArgumentException(s"${from.remaining} bytes follow a message")
    message
  }

  private def of(kind: Char, bytes: Int): ByteBuffer = ByteBuffer.allocate(1 + bytes).put(kind.toByte)

  private def done(to: ByteBuffer): ByteBuffer = {
    to.flip()
    to
  }

  private def whole(kind: Char, bytes: Array[Byte]): ByteBuffer = done(of(kind, bytes.length).put(bytes))

  private def sizeOf(values: Seq[Int]): Int = Integer.BYTES * (1 + values.size)

  private def ints(to: ByteBuffer, values: Seq[Int]): ByteBuffer = {
    to.putInt(values.size)
    values.foreach(to.putInt)
    to
  }

  private def ints(from: ByteBuffer): Seq[Int] = {
    val count = from.getInt()
    if (count < 0 || count > from.remaining / Integer.BYTES)
      throw new IllegalArgumentException(s"$count numbers do not fit a message")
    Seq.fill(count)(from.getInt())
  }

  private def bytes(from: ByteBuffer, count: Int): Array[Byte] = {
    if (count < 0 || count > from.remaining)
      throw new IllegalArgumentException(s"$count bytes do not fit a message")
    val found = new Array[Byte](count)
    from.get(found)
    found
  }

  private def rest(from: ByteBuffer): Array[Byte] = bytes(from, from.remaining)
}
