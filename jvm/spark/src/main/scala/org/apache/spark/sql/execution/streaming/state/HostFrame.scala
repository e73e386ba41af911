package org.apache.spark.sql.execution.streaming.state

import java.util.{Arrays, HashMap}

import scala.collection.mutable.ArrayBuffer

/** What a host lane has written since its last frame: in order, as it goes home, and by key, for whoever reads meanwhile. */
private[state] final class HostFrame {
  private val out = new BytesOut
  private val byKey = new HashMap[StateKey, Held]

  /** Bytes that go home. */
  def bytes: Int = out.size

  /** What this frame's writes leave of a key; null if it has none. */
  def get(key: StateKey): Held = byKey.get(key)

  def add(write: StateWrite, key: StateKey, after: Held): Unit = {
    StateWrite.encode(write, out)
    byKey.put(key, after)
  }

  /** All of the value of a key that this frame has merged onto is known now. */
  def known(key: StateKey, whole: Held): Unit = byKey.replace(key, whole)

  /** Keys of a table and what is left of them, in the database's order. */
  def sorted(table: Int, wanted: Array[Byte] => Boolean): Seq[(Array[Byte], Held)] = {
    val found = new ArrayBuffer[(Array[Byte], Held)]
    byKey.forEach((key, held) => if (key.table == table && wanted(key.bytes)) found += ((key.bytes, held)))
    found.sortWith((a, b) => Arrays.compareUnsigned(a._1, b._1) < 0).toSeq
  }

  /** The table is gone, and what has been written to it. Home drops the writes when they come. */
  def forgetTable(table: Int): Unit = byKey.keySet.removeIf(_.table == table)

  /** Gives and forgets everything. */
  def take(): Array[Byte] = {
    byKey.clear()
    out.take()
  }
}
