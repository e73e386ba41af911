package org.apache.spark.sql.execution.streaming.state

import java.util.LinkedHashMap

/** What a host lane knows of its keys' values, of all its stores together, within `limit` bytes: the least recently used is
  * forgotten first. That a key has no value is known, too. What is known of a shard's keys is void once the shard has been
  * elsewhere, and is dropped when somebody comes upon it.
  */
private[state] final class HostCache(limit: Long, shards: Int) {
  import HostCache.Entry

  private val entries = new LinkedHashMap[StateKey, Entry](16, 0.75f, true)
  private val arrivals = new Array[Int](shards)
  private var held = 0L

  def bytes: Long = held

  /** Null if nothing is known. */
  def get(key: StateKey): Held = {
    val entry = entries.get(key)
    if (entry == null) null
    else if (entry.arrival == arrivals(entry.shard)) entry.held
    else {
      forget(key)
      null
    }
  }

  /** @param shard asked only if the key is new here */
  def put(key: StateKey, value: Held)(shard: => Int): Unit = {
    val before = entries.remove(key)
    if (before != null) held -= before.size
    val of = if (before == null) shard else before.shard
    val entry = Entry(value, of, arrivals(of), HostCache.Overhead + key.bytes.length + value.size)
    entries.put(key, entry)
    held += entry.size
    val oldest = entries.entrySet().iterator()
    while (held > limit && oldest.hasNext) {
      held -= oldest.next().getValue.size
      oldest.remove()
    }
  }

  def forget(key: StateKey): Unit = {
    val entry = entries.remove(key)
    if (entry != null) held -= entry.size
  }

  def forgetTable(table: Int): Unit = {
    val all = entries.entrySet().iterator()
    while (all.hasNext) {
      val entry = all.next()
      if (entry.getKey.table == table) {
        held -= entry.getValue.size
        all.remove()
      }
    }
  }

  def forgetAll(): Unit = {
    entries.clear()
    held = 0L
  }

  /** These shards have been elsewhere. */
  def arrived(shards: Seq[Int]): Unit = shards.foreach(arrivals(_) += 1)
}

private object HostCache {

  /** Of an entry, without the bytes of key and value: roughly. */
  private val Overhead = 160

  /** @param arrival the shard's arrival under which this was read or written */
  private final case class Entry(held: Held, shard: Int, arrival: Int, size: Int)
}
