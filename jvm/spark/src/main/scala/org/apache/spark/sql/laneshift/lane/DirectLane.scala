package org.apache.spark.sql.laneshift.lane

import org.apache.spark.sql.catalyst.InternalRow

import laneshift.ids.LaneId

/** The only lane of a partition with one input, run by the task's own thread straight from the shuffle. Another thread may ask for more
  * lanes: then the input ends at the next row boundary, as for a lane restart.
  */
private[laneshift] final class DirectLane(task: PartitionTask, source: Iterator[InternalRow])
    extends LaneContext(task, LaneId(0)) {

  @volatile private var wanted = false
  private var restarting = false
  private var ended = false
  private var received = 0L

  /** Asks for the change to threads; takes effect with the next row. */
  def requestThreads(): Unit = wanted = true

  /** Rows so far; exact for the task's thread, roughly so for others. */
  def rows: Long = received

  override def currentShard: Int = 0
  override def isRestarting: Boolean = restarting

  override def input(index: Int): Iterator[InternalRow] = rowsFromSource

  private val rowsFromSource = new Iterator[InternalRow] {
    override def hasNext: Boolean =
      if (restarting || ended) false
      else if (wanted) {
        restarting = true
        false
      } else {
        // What has ended stays so: the body may have committed on the strength of it.
        ended = !source.hasNext
        !ended
      }

    override def next(): InternalRow = {
      received += 1
      source.next()
    }
  }
}

/** Stands for a lane where Spark's own path runs: gives the shuffles' rows and nothing else. */
private[laneshift] final class StockLane(inputs: Seq[Iterator[InternalRow]])
    extends LaneContext(null, LaneId(0)) {
  override def input(index: Int): Iterator[InternalRow] = inputs(index)
  override def currentShard: Int = 0
  override def isRestarting: Boolean = false
}
