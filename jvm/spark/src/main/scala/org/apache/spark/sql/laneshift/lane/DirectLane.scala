package org.apache.spark.sql.laneshift.lane

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.laneshift.body.{LaneContext, SharedPartition}

import laneshift.ids.LaneId

/** The only lane of a partition with one input, run by the task's own thread straight from the shuffle. Another thread may ask for more
  * lanes: then the input ends at the next row boundary, as for a lane restart.
  */
private[laneshift] final class DirectLane(
    override val partition: Option[SharedPartition],
    source: Iterator[InternalRow],
    readsAhead: Boolean
) extends OneShard {

  @volatile private var wanted = false
  @volatile private var restarting = false
  @volatile private var ended = false
  private var received = 0L

  // The time of a row is that of its whole way through the operators: sampled, two clock readings a row would cost too much.
  private var sampledNs = 0L
  private var samples = 0L
  private var sampleSinceNs = 0L

  // Where rows are read ahead, one row's time says nothing: then all waits for rows are timed.
  @volatile private var begunNs = 0L
  @volatile private var waitedNs = 0L
  @volatile private var waitsSinceNs = 0L

  /** Asks for the change to threads; takes effect with the next row. */
  def requestThreads(): Unit = wanted = true

  /** Whether the shuffle or source has given all its rows. */
  def hasAllRows: Boolean = ended

  /** Rows so far; exact for the task's thread, roughly so for others. */
  def rows: Long = received

  /** Time spent on the rows so far, without waits for them; from samples, unless rows are read ahead. */
  def busyNs: Long =
    if (readsAhead) {
      val now = System.nanoTime()
      val waiting = if (waitsSinceNs == 0L) 0L else now - waitsSinceNs
      if (begunNs == 0L) 0L else math.max(0L, now - begunNs - waitedNs - waiting)
    } else if (samples == 0L) 0L
    else (received.toDouble / samples * sampledNs).toLong

  /** Samples are of rows; what is timed as a whole goes on until the end. */
  def countsCommits: Boolean = readsAhead

  override val lane: LaneId = LaneId(0)
  override def isRestarting: Boolean = restarting
  override def input(index: Int): Iterator[InternalRow] = rowsFromSource

  private val rowsFromSource = new Iterator[InternalRow] {
    override def hasNext: Boolean = {
      if (sampleSinceNs != 0L) {
        sampledNs += System.nanoTime() - sampleSinceNs
        samples += 1
        sampleSinceNs = 0L
      }
      if (restarting || ended) false
      else if (wanted) {
        restarting = true
        false
      } else {
        // What has ended stays so: the body may have committed on the strength of it.
        ended = !(if (readsAhead) timedHasNext else source.hasNext)
        !ended
      }
    }

    private def timedHasNext: Boolean = {
      val since = System.nanoTime()
      if (begunNs == 0L) begunNs = since
      waitsSinceNs = since
      val has = source.hasNext
      waitsSinceNs = 0L
      waitedNs += System.nanoTime() - since
      has
    }

    override def next(): InternalRow = {
      received += 1
      val row = source.next()
      if (!readsAhead && (received & DirectLane.SampleMask) == 0L) sampleSinceNs = System.nanoTime()
      row
    }
  }
}

private object DirectLane {

  /** One row in 16 is timed. */
  private val SampleMask = 15L
}

/** A lane to which all of its rows are of one shard. */
private[lane] trait OneShard extends LaneContext {
  override def currentShard: Int = 0
  override def inputsEnded: Boolean = false
  override def perShard[T](operatorId: Long, write: T => Unit)(make: => T): IndexedSeq[T] = Vector(make)
  override def ownShards: Seq[Int] = Seq(0)
}

/** Stands for a lane where Spark's own path runs: gives the shuffles' rows and nothing else. */
private[laneshift] final class StockLane(inputs: Seq[Iterator[InternalRow]]) extends OneShard {
  override val lane: LaneId = LaneId(0)
  override def input(index: Int): Iterator[InternalRow] = inputs(index)
  override def isRestarting: Boolean = false
  override def partition: Option[SharedPartition] = None
}
