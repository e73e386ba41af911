package org.apache.spark.sql.execution.streaming.state

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

import scala.util.control.NonFatal

import org.apache.spark.util.Utils

/** Writes what travels between a host and home, compactly: numbers take as few bytes as they need. */
private[state] final class BytesOut {
  private var bytes = new Array[Byte](256)
  private var at = 0

  def size: Int = at

  def byte(value: Int): BytesOut = {
    room(1)
    bytes(at) = value.toByte
    at += 1
    this
  }

  def bool(value: Boolean): BytesOut = byte(if (value) 1 else 0)

  /** Not negative. */
  def number(value: Long): BytesOut = {
    var rest = value
    while (rest > 0x7f) {
      byte((rest & 0x7f).toInt | 0x80)
      rest >>>= 7
    }
    byte(rest.toInt)
  }

  def array(value: Array[Byte]): BytesOut = {
    number(value.length.toLong)
    room(value.length)
    System.arraycopy(value, 0, bytes, at, value.length)
    at += value.length
    this
  }

  /** An array, or null. */
  def arrayOrNull(value: Array[Byte]): BytesOut = {
    bool(value != null)
    if (value != null) array(value) else this
  }

  def arrays(values: Iterable[Array[Byte]]): BytesOut = {
    number(values.size.toLong)
    values.foreach(array)
    this
  }

  def text(value: String): BytesOut = array(value.getBytes(UTF_8))

  def serialized(value: AnyRef): BytesOut = array(Utils.serialize(value))

  /** What has been written so far, which is forgotten here. */
  def take(): Array[Byte] = {
    val taken = Arrays.copyOf(bytes, at)
    at = 0
    taken
  }

  private def room(more: Int): Unit =
    if (bytes.length - at < more)
      bytes =
        Arrays.copyOf(bytes, Math.max(bytes.length.toLong * 2, at.toLong + more).min(Int.MaxValue - 8L).toInt)
}

/** Reads what [[BytesOut]] has written. Whatever else it is given, it says so with an `IllegalArgumentException`. */
private[state] final class BytesIn(bytes: Array[Byte]) {
  private var at = 0

  def hasMore: Boolean = at < bytes.length

  def byte(): Int = {
    need(1)
    at += 1
    bytes(at - 1).toInt
  }

  def bool(): Boolean = byte() match {
    case 0 => false
    case 1 => true
    case other => broken(s"$other is neither yes nor no")
  }

  def number(): Long = {
    var value = 0L
    var shift = 0
    var part = byte()
    while ((part & 0x80) != 0) {
      value |= (part & 0x7fL) << shift
      shift += 7
      if (shift > 56) broken("a number is too long")
      part = byte()
    }
    value | (part.toLong << shift)
  }

  /** Of a store, a table, a scan. */
  def index(): Int = {
    val value = number()
    if (value > Int.MaxValue) broken(s"$value is out of range")
    value.toInt
  }

  def array(): Array[Byte] = {
    val length = number()
    if (length > bytes.length - at) broken(s"$length bytes are announced")
    at += length.toInt
    Arrays.copyOfRange(bytes, at - length.toInt, at)
  }

  def arrayOrNull(): Array[Byte] = if (bool()) array() else null

  /** A count, then as many of something that takes a byte at least. */
  def several[T](one: => T): Seq[T] = {
    val count = number()
    if (count > bytes.length - at) broken(s"$count entries are announced")
    Vector.fill(count.toInt)(one)
  }

  def text(): String = new String(array(), UTF_8)

  def serialized[T](kind: Class[T]): T = {
    val value = array()
    try kind.cast(Utils.deserialize[AnyRef](value, Utils.getContextOrSparkClassLoader))
    catch { case NonFatal(error) => broken(s"no ${kind.getSimpleName}", error) }
  }

  /** To be called when all has been read. */
  def end(): Unit = if (hasMore) broken("there is more than was expected")

  private def need(count: Int): Unit = if (bytes.length - at < count) broken("it is cut off")

  def broken(why: String, cause: Throwable = null): Nothing = throw new IllegalArgumentException(
    s"a message about state cannot be read: $why, at byte $at of ${bytes.length}",
    cause
  )
}
