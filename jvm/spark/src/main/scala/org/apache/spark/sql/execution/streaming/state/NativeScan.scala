package org.apache.spark.sql.execution.streaming.state

import java.util.{ArrayDeque, HashSet}

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.laneshift.body.StateBytes
import org.apache.spark.util.NextIterator

import laneshift.lane.ScanSource

/** A scan of Spark's RocksDB wrapper that several threads may do at once on one database: its iterators share one pair of
  * references, so rows are fetched a few at a time under the store's lock.
  */
private[state] final class NativeScan(
    lock: Object,
    open: => NativeScan.Source,
    few: Int = NativeScan.ForOne,
    closed: NativeScan => Unit = _ => ()
) extends ScanSource[StateBytes] {
  private val source = lock.synchronized(open)
  private var ended = false

  override def fetch(): ArrayDeque[StateBytes] = lock.synchronized {
    val rows = new ArrayDeque[StateBytes](few)
    var bytes = 0L
    while (!ended && rows.size < few && bytes < NativeScan.FetchBytes)
      if (source.hasNext) {
        val pair = source.next()
        val row = StateBytes(pair.key, pair.value)
        rows.addLast(row)
        bytes += row.size
      } else close()
    rows
  }

  /** There are no more rows to fetch. */
  def isOver: Boolean = lock.synchronized(ended)

  override def close(): Unit = {
    lock.synchronized {
      ended = true
      source.closeIfNeeded()
    }
    closed(this)
  }
}

/** The scans that a lane has open in one store. Spark keeps a listener of each scan for as long as the task goes on: in Real-time Mode
  * that is hours, and timers are looked for behind every row. Here one closes those that are open. Used on the lane's thread, but
  * for scans that end with the task.
  */
private[state] final class OpenScans {
  private val scans = new HashSet[NativeScan]
  private var isRegistered = false

  /** @param scan makes one that tells this function of its end */
  def open(scan: (NativeScan => Unit) => NativeScan): NativeScan = {
    val context = TaskContext.get()
    if (context != null && !isRegistered) {
      isRegistered = true
      context.addTaskCompletionListener[Unit](_ => closeAll())
    }
    if (context != null) TaskContext.unset()
    try {
      val opened = scan(ended)
      synchronized(scans.add(opened))
      opened
    } finally if (context != null) TaskContext.setTaskContext(context)
  }

  private[state] def count: Int = synchronized(scans.size)

  private def ended(scan: NativeScan): Unit = synchronized {
    scans.remove(scan)
    ()
  }

  private def closeAll(): Unit = synchronized(scans.toArray(Array.empty[NativeScan])).foreach(_.close())
}

private[state] object NativeScan {
  type Source = NextIterator[ByteArrayPair]

  /** Rows at a time for one lane, and for several to share: each then gets some, and they seldom meet at the lock. */
  val ForOne = 64
  val ForSeveral = 1024

  /** No more are fetched at a time, but for the last row. */
  private val FetchBytes = 128L * 1024
}

/** The rows of a scan whose key is wanted, from what `fetch` gives until that is empty; none once it is closed. As with
  * Spark's own, a row lives until the next call of `next`: operators ask `hasNext` while they still hold one, though a decoder
  * has one row for all.
  */
private[state] final class DecodedScan(
    fetch: () => ArrayDeque[StateBytes],
    decodeKey: Array[Byte] => UnsafeRow,
    wanted: UnsafeRow => Boolean,
    decodeValues: Array[Byte] => Iterator[UnsafeRow],
    onClose: () => Unit
) extends Iterator[UnsafeRowPair] {
  private val pair = new UnsafeRowPair
  private var fetched = new ArrayDeque[StateBytes](0)
  private var ended = false
  private var key: UnsafeRow = _
  private var values = Iterator.empty[UnsafeRow]

  override def hasNext: Boolean = {
    while (!values.hasNext && hasFetched) {
      val bytes = fetched.pollFirst()
      val decoded = decodeKey(bytes.key)
      if (wanted(decoded)) {
        key = decoded.copy()
        values = decodeValues(bytes.value)
      }
    }
    values.hasNext
  }

  private def hasFetched: Boolean = {
    if (fetched.isEmpty && !ended) {
      fetched = fetch()
      ended = fetched.isEmpty
    }
    !ended
  }

  override def next(): UnsafeRowPair = {
    if (!hasNext) throw new NoSuchElementException("the scan has ended")
    pair.withRows(key, values.next())
  }

  def close(): Unit = {
    ended = true
    fetched = new ArrayDeque(0)
    values = Iterator.empty
    onClose()
  }
}
