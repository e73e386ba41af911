package org.apache.spark.sql.execution.streaming.state

import java.util.Arrays

/** A key of a store, of any column family. */
private[state] final class StateKey(val table: Int, val bytes: Array[Byte]) {
  override val hashCode: Int = 31 * table + Arrays.hashCode(bytes)

  override def equals(other: Any): Boolean = other match {
    case that: StateKey => table == that.table && Arrays.equals(bytes, that.bytes)
    case _ => false
  }
}

/** What a host knows of a key's value: all of it, or only what has been merged onto what home has. Values that are merged
  * are put together when somebody asks, as the database does: a list that only grows is not copied each time.
  */
private[state] final class Held private (
    val isWhole: Boolean,
    private var base: Array[Byte],
    private var merged: List[Array[Byte]],
    val size: Int
) {

  /** With one more value at its end. */
  def merge(value: Array[Byte], delimiter: Array[Byte]): Held =
    new Held(isWhole, base, value :: merged, size + value.length + delimiter.length)

  /** All of it, given what home has. */
  def onto(home: Array[Byte]): Held =
    new Held(isWhole = true, home, merged, size + (if (home == null) 0 else home.length))

  /** Whether the key has a value; of a whole one only. */
  def isThere: Boolean = base != null || merged.nonEmpty

  /** The value, or null if there is none; of a whole one only. A copy: operators may change the row that is made of it. */
  def value(delimiter: Array[Byte]): Array[Byte] = {
    if (merged.nonEmpty) {
      base = Held.joined((if (base == null) Nil else List(base)) ::: merged.reverse, delimiter)
      merged = Nil
    }
    if (base == null) null else base.clone()
  }
}

private[state] object Held {

  /** Nothing is known, and nothing merged yet. */
  val Unknown: Held = new Held(isWhole = false, null, Nil, 0)

  /** A value, or null for a key that has none. */
  def whole(value: Array[Byte]): Held =
    new Held(isWhole = true, value, Nil, if (value == null) 0 else value.length)

  def joined(values: List[Array[Byte]], delimiter: Array[Byte]): Array[Byte] = {
    val all = new Array[Byte](values.map(_.length).sum + delimiter.length * Math.max(values.size - 1, 0))
    var at = 0
    def add(part: Array[Byte]): Unit = {
      System.arraycopy(part, 0, all, at, part.length)
      at += part.length
    }
    values.take(1).foreach(add)
    values.drop(1).foreach { value =>
      add(delimiter)
      add(value)
    }
    all
  }
}
