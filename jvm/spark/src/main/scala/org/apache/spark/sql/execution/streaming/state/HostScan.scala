package org.apache.spark.sql.execution.streaming.state

import java.util.{ArrayDeque, Arrays}

import org.apache.spark.sql.laneshift.body.StateBytes

import laneshift.lane.ScanSource

/** Home's rows, some at a time, with what this lane's frame had written when the scan was opened, in the order of the store.
  *
  * @param first home's first rows
  * @param written keys in the same order, and what is left of each
  */
private[state] final class HostScan(
    first: StateAnswer.Rows,
    written: Seq[(Array[Byte], Held)],
    delimiter: Array[Byte],
    ask: StateRequest => Array[Byte]
) extends ScanSource[StateBytes] {
  private val ours = written.iterator.buffered
  private var theirs = first
  private var used = false
  private var ended = false

  override def fetch(): ArrayDeque[StateBytes] = {
    val rows = new ArrayDeque[StateBytes]
    while (!ended && rows.isEmpty) {
      if (used) theirs = StateAnswer.readRows(ask(StateRequest.More(theirs.scan)))
      used = true
      theirs.rows.foreach { row =>
        addOurs(rows, Arrays.compareUnsigned(_, row.key) < 0)
        if (ours.hasNext && Arrays.equals(ours.head._1, row.key)) add(rows, ours.next(), row.value)
        else rows.addLast(row)
      }
      if (theirs.areLast) {
        addOurs(rows, _ => true)
        ended = true
      }
    }
    rows
  }

  /** Those that home does not have. */
  private def addOurs(rows: ArrayDeque[StateBytes], wanted: Array[Byte] => Boolean): Unit =
    while (ours.hasNext && wanted(ours.head._1)) add(rows, ours.next(), null)

  private def add(rows: ArrayDeque[StateBytes], our: (Array[Byte], Held), home: Array[Byte]): Unit = {
    val (key, held) = our
    val value = (if (held.isWhole) held else held.onto(home)).value(delimiter)
    if (value != null) rows.addLast(StateBytes(key, value))
  }

  override def close(): Unit = if (!ended) {
    ended = true
    if (!theirs.areLast) ask(StateRequest.CloseScan(theirs.scan))
  }
}
