package org.apache.spark.sql.execution.streaming.state

import java.util.ArrayDeque

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.util.NextIterator

import laneshift.testing.{Fault, Faults}

/** A scan of Spark's RocksDB wrapper that several threads may do at once on one database: its iterators share one pair of
  * references, so rows are fetched a few at a time under the store's lock.
  */
private[state] final class NativeScan(lock: Object, open: => NativeScan.Source)
    extends Iterator[(Array[Byte], Array[Byte])] {
  private val source = lock.synchronized(open)
  private val fetched = new ArrayDeque[(Array[Byte], Array[Byte])](NativeScan.FetchRows)
  private var ended = false

  override def hasNext: Boolean = {
    if (fetched.isEmpty && !ended) fetch()
    !fetched.isEmpty
  }

  override def next(): (Array[Byte], Array[Byte]) = {
    if (!hasNext) throw new NoSuchElementException("the scan has ended")
    fetched.pollFirst()
  }

  private def fetch(): Unit = lock.synchronized {
    while (fetched.size < NativeScan.FetchRows && source.hasNext) {
      val pair = source.next()
      fetched.addLast((pair.key, pair.value))
    }
    if (fetched.isEmpty) {
      ended = true
      source.closeIfNeeded()
    }
  }

  def close(): Unit = lock.synchronized {
    ended = true
    fetched.clear()
    source.closeIfNeeded()
  }
}

private[state] object NativeScan {
  type Source = NextIterator[ByteArrayPair]
  private val FetchRows = 64
}

/** The rows of a scan whose key is wanted. As with Spark's own, a row lives until the next call of `next`: operators ask
  * `hasNext` while they still hold one, though a decoder has one row for all.
  */
private[state] final class DecodedScan(
    source: NativeScan,
    decodeKey: Array[Byte] => UnsafeRow,
    wanted: UnsafeRow => Boolean,
    decodeValues: Array[Byte] => Iterator[UnsafeRow]
) extends Iterator[UnsafeRowPair] {
  private val ahead = Faults.isOn(Fault.ScanDecodesAhead)
  private val pair = new UnsafeRowPair
  private var key: UnsafeRow = _
  private var values = Iterator.empty[UnsafeRow]

  override def hasNext: Boolean = {
    while (!values.hasNext && source.hasNext) {
      val (keyBytes, valueBytes) = source.next()
      val decoded = decodeKey(keyBytes)
      if (wanted(decoded)) {
        key = decoded.copy()
        values = if (ahead) decodeValues(valueBytes).toList.iterator else decodeValues(valueBytes)
      }
    }
    values.hasNext
  }

  override def next(): UnsafeRowPair = {
    if (!hasNext) throw new NoSuchElementException("the scan has ended")
    pair.withRows(key, values.next())
  }
}
