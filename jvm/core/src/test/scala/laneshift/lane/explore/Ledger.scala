package laneshift.lane.explore

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
