package org.apache.spark.sql.laneshift.lane

import laneshift.lane.{DealsBefore, Inlet, LaneFeed}
import laneshift.routing.Handoff

/** How a partition begins a batch.
  *
  * @param routing of the lanes here
  * @param elsewhere lanes on other executors that are to be there from the first row on; then the routing is asked for once they are
  * @param deals what is known of them, where rows are dealt
  */
private[laneshift] final case class BatchStart(
    routing: Array[Int],
    lanes: Int,
    elsewhere: Map[HostAddress, Int] = Map.empty,
    deals: Option[DealsBefore] = None
)

/** The partition that outlives a task, as the task needs it. Any thread of the task may call it. */
private[laneshift] trait PartitionHome {

  /** Spark's number of the partition. */
  def index: Int

  def nextHandoffId(): Long

  /** A handoff of this batch has settled. */
  def settled(handoff: Handoff, batchId: Long): Unit

  /** The task is there; its threads are to come. */
  def begun(task: LaneTask): Unit

  /** The task runs its only lane on its own thread. */
  def runningDirect(by: LaneTask, lane: DirectLane): Unit

  /** The task has started its receiver and lanes, which get their rows from `feed`. */
  def running(by: LaneTask, feed: LaneFeed): Unit

  /** The lane of each shard in a batch that begins with these lanes and keeps them. */
  def route(lanes: Seq[Int]): Array[Int]

  /** The task has put out everything; `last` is the routing that the next batch starts with. */
  def endBatch(by: LaneTask, last: Array[Int]): Unit

  /** The task ends, whichever way. */
  def abandon(by: LaneTask): Unit

  /** The task has one lane more elsewhere: shards may go there. */
  def lanesChanged(by: LaneTask): Unit

  /** A host has not taken a lane, was not ready when the batch began, or is no more. */
  def hostRefused(host: HostAddress, why: String): Unit
  def hostLate(host: HostAddress): Unit
  def hostLost(host: HostAddress, why: String): Unit

  /** Called by the receiver after each row in the fault mode; null without it. */
  def receiverMotion: ReceiverMotion

  /** CPU time by shard, each written by the lane that owns the shard. */
  def cpuNs: Array[Long]
}

/** Moves shards every few rows, on the receiver's thread. */
private[laneshift] final class ReceiverMotion(every: Int, step: Inlet[_] => Unit) {
  def afterRow(rows: Long, inlet: Inlet[_]): Unit = if (rows % every == 0) step(inlet)
}
