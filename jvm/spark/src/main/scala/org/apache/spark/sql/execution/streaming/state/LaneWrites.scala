package org.apache.spark.sql.execution.streaming.state

import java.nio.ByteBuffer
import java.util.HashMap

import scala.collection.mutable.ArrayBuffer

/** What one lane writes to a shared store. While rows may still come, each write is done at once, because the next reader
  * may be another lane. Once the lane's input has ended its keys are nobody else's: writes are kept, and done together, in
  * their order, so that lanes do not meet at the store's lock for each. They are done before anybody may look for them: at
  * a scan of this lane, at its seal.
  *
  * Only the lane's thread and those that work for it (a Python function's state server) use it, one at a time.
  */
private[state] final class LaneWrites(db: RocksDB, lock: Object) {
  import LaneWrites.{FromMemoryNanos, Key, Most, SeldomFetched, Write}

  private val kept = new ArrayBuffer[Write]
  private val newest = new HashMap[Key, Write]
  private var unfetched = 0

  def put(key: Array[Byte], value: Array[Byte], family: String, keep: Boolean): Unit =
    add(Write(Key(family, ByteBuffer.wrap(key)), value), keep)

  def remove(key: Array[Byte], family: String, keep: Boolean): Unit =
    add(Write(Key(family, ByteBuffer.wrap(key)), null), keep)

  private def add(write: Write, keep: Boolean): Unit = synchronized {
    kept += write
    if (!keep) settle()
    else {
      newest.put(write.key, write)
      if (kept.size >= Most) settle()
    }
  }

  /** The value of a key; null if it has none. */
  def get(key: Array[Byte], family: String): Array[Byte] = find(key, family) match {
    case None => db.get(key, family)
    case Some(write) => write.value
  }

  def keyExists(key: Array[Byte], family: String): Boolean = find(key, family) match {
    case None => db.keyExists(key, family)
    case Some(write) => write.value != null
  }

  private def find(key: Array[Byte], family: String): Option[Write] = synchronized {
    if (newest.isEmpty) None
    else Option(newest.get(Key(family, ByteBuffer.wrap(key))))
  }

  /** Runs a write or read that is not of one value, after all that came before it. */
  def settled[T](body: => T): T = synchronized {
    settle()
    body
  }

  /** Does all that is kept. */
  def settle(): Unit = synchronized {
    if (kept.nonEmpty) {
      if (kept.size > 1 && db.conf.trackTotalNumberOfRows) fetch()
      lock.synchronized(kept.foreach { write =>
        val (key, family) = (write.key.bytes.array, write.key.family)
        if (write.value == null) db.remove(key, family) else db.put(key, write.value, family)
      })
      kept.clear()
      newest.clear()
    }
  }

  /** Spark reads each key before it writes it, to count rows: what that needs from disk comes into the database's cache
    * before the lock is taken. Where all is in memory anyway, because it fits or has just been read, this is seldom tried.
    */
  private def fetch(): Unit =
    if (unfetched > 0) unfetched -= 1
    else {
      val began = System.nanoTime()
      kept.foreach(write => db.keyExists(write.key.bytes.array, write.key.family))
      if (System.nanoTime() - began < kept.size * FromMemoryNanos) unfetched = SeldomFetched
    }
}

private object LaneWrites {

  /** So many that the lock is taken rarely, and so few that nobody waits long for it. */
  private val Most = 128

  /** A key that takes longer came from disk, or the thread had to wait for a core. */
  private val FromMemoryNanos = 8000L

  /** So many groups of writes go without once nothing came from disk. */
  private val SeldomFetched = 31

  private final case class Key(family: String, bytes: ByteBuffer)

  /** Of one key; without a value it is a removal. */
  private final case class Write(key: Key, value: Array[Byte])
}
