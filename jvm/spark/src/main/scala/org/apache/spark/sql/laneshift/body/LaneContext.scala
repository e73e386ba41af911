package org.apache.spark.sql.laneshift.body

import org.apache.spark.sql.catalyst.InternalRow

import laneshift.ids.LaneId

/** What the code of a lane's body may know of the lane it runs on: Spark's operators and ours, and their state stores. One per
  * lane. Only the lane's thread uses it, and threads that work for it one at a time (Python's writer and state server).
  */
private[sql] trait LaneContext {

  def lane: LaneId

  /** This lane's rows of one of the region's inputs; each call goes on where the last one stopped. */
  def input(index: Int): Iterator[InternalRow]

  /** The shard of the row that `input` gave last; 0 while the partition runs without threads. */
  def currentShard: Int

  /** True from the moment that the input ends only for a lane restart: the body must write everything out and may not act
    * as if the batch were over (no eviction, no timers, no commit).
    */
  def isRestarting: Boolean

  /** True if this lane is one of several and every input has come to its end: routing and lanes are final. */
  def inputsEnded: Boolean

  /** What an operator keeps of each shard that `currentShard` tells apart: made once, and only ever used by the lane that owns
    * the shard, which it goes along with (docs/handoff.md, section 4).
    *
    * @param write called on the lane's thread between two rows, with what is kept of a shard that leaves the process: writes it
    *   to the lane's store, and keeps nothing of it
    */
  def perShard[T](operatorId: Long, write: T => Unit)(make: => T): IndexedSeq[T]

  /** The shards of this lane; once its input has ended, for good. */
  def ownShards: Seq[Int]

  /** Lets what the lane has put out go on, before it seals a store: where something is kept back. */
  def flushOutputs(): Unit = ()

  /** What the lanes of the partition share; none where Spark's own path runs, whose stores are Spark's. */
  def partition: Option[SharedPartition]

  /** Where the state is of a lane that runs away from home, in another process than its stores; none for all others. */
  def remoteState: Option[RemoteState] = None
}

private[sql] object LaneContext {
  private val current = new ThreadLocal[LaneContext]

  /** The lane that the current thread runs, if any. */
  def get: Option[LaneContext] = Option(current.get)

  def within[T](context: LaneContext)(body: => T): T = {
    val before = current.get
    current.set(context)
    try body
    finally if (before == null) current.remove() else current.set(before)
  }
}
