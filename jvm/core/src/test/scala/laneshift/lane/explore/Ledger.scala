package laneshift.lane.explore

import java.util.ArrayDeque

import scala.jdk.CollectionConverters._

import laneshift.lane.ScanSource

/** Something that must never be. */
final class Violation(what: String) extends RuntimeException(what)

object Violation {
  def unless(right: Boolean, what: => String): Unit = if (!right) throw new Violation(what)
}

/** What is true of a partition, by key: how many of its rows each station has seen. A key's rows are counted from 0 through
  * all batches, its state is the number of rows that it has seen, and a row's output is the row.
  */
final class Ledger(keys: Int) {

  /** Visible outside: state and outputs of committed batches. */
  val committed = new Array[Long](keys)

  /** Of the batch that runs: given to the inlet, worked on by a lane, written to the shared store, put out by the task. */
  val offered, processed, stored, emitted = new Array[Long](keys)
  private val seen = new Array[Long](keys)

  def beginBatch(): Unit =
    Seq(offered, processed, stored, emitted).foreach(committed.copyToArray(_))

  def commitBatch(): Unit = {
    requireAll(stored, "stored")
    requireAll(emitted, "put out")
    offered.copyToArray(committed)
  }

  def requireAll(station: Array[Long], what: String): Unit = {
    var key = 0
    while (key < keys) {
      if (station(key) != offered(key))
        throw new Violation(s"${station(key)} of ${offered(key)} rows of key $key are $what")
      key += 1
    }
  }

  /** Goes once over all rows between receiver and operators, for each key in the order in which they are due. */
  def beginCount(): Unit = System.arraycopy(processed, 0, seen, 0, keys)

  def count(key: Int, seq: Long): Unit = {
    if (seen(key) != seq) throw new Violation(s"row $seq of key $key is where row ${seen(key)} is due")
    seen(key) = seq + 1
  }

  def endCount(): Unit = requireAll(seen, "somewhere")
}

/** Groups that an operator keeps in memory over the store: the state by key, and whether it is not written yet. */
final class Groups(keys: Int) {
  private val states = Array.fill(keys)(Groups.Absent)
  private val dirty = new Array[Boolean](keys)

  def has(key: Int): Boolean = states(key) != Groups.Absent
  def stateOf(key: Int, ledger: Ledger): Long = if (has(key)) states(key) else ledger.stored(key)

  def put(key: Int, state: Long): Unit = {
    states(key) = state
    dirty(key) = true
  }

  def write(key: Int, ledger: Ledger, keep: Boolean): Unit = {
    if (dirty(key)) {
      ledger.stored(key) = states(key)
      dirty(key) = false
    }
    if (!keep) states(key) = Groups.Absent
  }

  def check(ledger: Ledger): Unit = {
    var key = 0
    while (key < keys) {
      if (has(key) && states(key) != ledger.processed(key))
        throw new Violation(s"state ${states(key)} of key $key is cached after ${ledger.processed(key)} rows")
      key += 1
    }
  }
}

object Groups {
  private val Absent = -1L
}

/** A row of the store as a scan finds it. */
final case class StateRow(key: Int, state: Long)

/** A scan of the store as it is when the scan is opened. */
final class StoreScan(ledger: Ledger, scenario: Scenario) extends ScanSource[StateRow] {
  private val rows =
    (0 until scenario.keys).map(k => StateRow(k, ledger.stored(k))).grouped(StoreScan.Fetched)
  var closed = false

  override def fetch(): ArrayDeque[StateRow] = {
    Violation.unless(!closed, "a closed scan is read")
    new ArrayDeque(rows.nextOption().getOrElse(Nil).asJava)
  }

  override def close(): Unit = {
    Violation.unless(!closed, "a scan is closed twice")
    closed = true
  }
}

object StoreScan {

  /** Rows at a time. */
  val Fetched = 2
}
