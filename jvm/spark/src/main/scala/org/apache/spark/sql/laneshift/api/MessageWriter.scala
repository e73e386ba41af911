package org.apache.spark.sql.laneshift.api

import java.nio.charset.StandardCharsets.UTF_8

/** Writes what [[Answer]] writes as JSON as messages of a proto file, by the same names. What a message has no field for is left out.
  *
  * There is no library for it on Spark's class path that is not shaded, and the control service's process would take ten times as
  * long to make the same of JSON.
  */
private[api] final class MessageWriter(file: ProtoFile) {
  import MessageWriter._

  /** The bytes of a message of that name. */
  def message(name: String, values: Map[String, Any]): Array[Byte] = {
    val out = new Backwards
    write(out, name, values)
    out.result
  }

  /** The bytes of a field of a message of that name. */
  def field(message: String, field: String, value: Any): Array[Byte] = {
    val out = new Backwards
    write(out, file.fields(message)(field), value)
    out.result
  }

  private def write(out: Backwards, message: String, values: Map[String, Any]): Unit = {
    val fields = file.fields(message)
    values.foreach { case (name, value) => fields.get(name).foreach(write(out, _, value)) }
  }

  private def write(out: Backwards, field: ProtoField, value: Any): Unit = value match {
    case null | None => ()
    case Some(there) => write(out, field, there)
    case many: Array[Int] => packed(out, field, many.length)(i => integer(out, field, many(i).toLong))
    case many: Array[Long] => packed(out, field, many.length)(i => integer(out, field, many(i)))
    case many: Array[Double] => packed(out, field, many.length)(i => fraction(out, field, many(i)))
    case many: Seq[_] if field.repeated =>
      if (field.kind == "double" || Integers(field.kind)) {
        val indexed = many.toIndexedSeq
        packed(out, field, indexed.length)(i => scalar(out, field, indexed(i)))
      } else many.reverseIterator.foreach(one(out, field, _))
    case single if !field.repeated => if (field.optional || !isDefault(single)) one(out, field, single)
    case other => throw wrong(field, other)
  }

  private def one(out: Backwards, field: ProtoField, value: Any): Unit = value match {
    case text: String if field.kind == "string" =>
      val bytes = text.getBytes(UTF_8)
      out.bytes(bytes)
      out.varint(bytes.length.toLong)
      tag(out, field, Sized)
    case Written(bytes) =>
      out.bytes(bytes)
      out.varint(bytes.length.toLong)
      tag(out, field, Sized)
    case values: Map[_, _] =>
      val before = out.size
      write(out, field.kind, values.asInstanceOf[Map[String, Any]])
      out.varint((out.size - before).toLong)
      tag(out, field, Sized)
    case other =>
      scalar(out, field, other)
      tag(out, field, if (field.kind == "double") Fixed else Varint)
  }

  private def packed(out: Backwards, field: ProtoField, length: Int)(write: Int => Unit): Unit =
    if (!field.repeated) throw wrong(field, s"$length values")
    else if (length > 0) {
      val before = out.size
      var i = length
      while (i > 0) {
        i -= 1
        write(i)
      }
      out.varint((out.size - before).toLong)
      tag(out, field, Sized)
    }

  private def scalar(out: Backwards, field: ProtoField, value: Any): Unit = value match {
    case n: Int if field.kind == "double" => fraction(out, field, n.toDouble)
    case n: Long if field.kind == "double" => fraction(out, field, n.toDouble)
    case n: Double => fraction(out, field, n)
    case n: Int => integer(out, field, n.toLong)
    case n: Long => integer(out, field, n)
    case b: Boolean if field.kind == "bool" => out.varint(if (b) 1L else 0L)
    case other => throw wrong(field, other)
  }

  private def integer(out: Backwards, field: ProtoField, value: Long): Unit =
    if (!Integers(field.kind)) throw wrong(field, value)
    else if (field.kind == "int32" && value != value.toInt) throw wrong(field, value)
    else out.varint(value)

  private def fraction(out: Backwards, field: ProtoField, value: Double): Unit =
    if (field.kind == "double") out.fixed(java.lang.Double.doubleToLongBits(value))
    else throw wrong(field, value)

  private def tag(out: Backwards, field: ProtoField, form: Int): Unit =
    out.varint((field.number.toLong << 3) | form)

  private def wrong(field: ProtoField, value: Any): IllegalArgumentException =
    new IllegalArgumentException(
      s"$value is no value of field ${field.number}, which is of the kind ${field.kind}"
    )
}

private object MessageWriter {
  private val Integers = Set("int32", "int64")

  // How a field's value is written.
  private val Varint = 0
  private val Fixed = 1
  private val Sized = 2

  /** What is read where nothing is written. A fraction's is 0.0, and not -0.0. */
  private def isDefault(value: Any): Boolean = value match {
    case n: Int => n == 0
    case n: Long => n == 0L
    case n: Double => java.lang.Double.doubleToLongBits(n) == 0L
    case b: Boolean => !b
    case text: String => text.isEmpty
    case _ => false
  }
}

/** The bytes of a message, where it is a field of another one. */
private[api] final case class Written(bytes: Array[Byte])

/** Bytes that are written from the last to the first: how long a message is, is known once it was written, and comes before it. */
private final class Backwards {
  private var room = new Array[Byte](1 << 10)
  private var start = room.length

  def size: Int = room.length - start

  def result: Array[Byte] = java.util.Arrays.copyOfRange(room, start, room.length)

  def bytes(value: Array[Byte]): Unit = {
    take(value.length)
    System.arraycopy(value, 0, room, start, value.length)
  }

  def fixed(value: Long): Unit = {
    take(8)
    var i = 0
    while (i < 8) {
      room(start + i) = (value >>> (8 * i)).toByte
      i += 1
    }
  }

  def varint(value: Long): Unit = {
    // Seven bits a byte, one byte for zero.
    val length = (70 - java.lang.Long.numberOfLeadingZeros(value | 1L)) / 7
    take(length)
    var left = value
    var i = 0
    while (i < length - 1) {
      room(start + i) = ((left & 0x7f) | 0x80).toByte
      left >>>= 7
      i += 1
    }
    room(start + i) = left.toByte
  }

  private def take(count: Int): Unit = {
    if (start < count) {
      val wider = new Array[Byte](math.max(2 * room.length, room.length + count))
      val moved = wider.length - size
      System.arraycopy(room, start, wider, moved, size)
      start = moved
      room = wider
    }
    start -= count
  }
}
