package org.apache.spark.sql.laneshift.lane

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.laneshift.body.SharedPartition

/** A Spark task that computes an elastic partition, as the partition that outlives it knows it. */
private[laneshift] trait LaneTask {

  /** Its lanes on other executors. */
  def remote: RemoteLanes
}

/** A task that can begin with its only lane on its own thread, and go over to threads. */
private[lane] trait DirectTask extends LaneTask {

  /** What the lane's stores and operators share with others. */
  def directPartition: Option[SharedPartition]

  def beginDirect(lane: DirectLane): Unit

  /** The lane's body has ended for the change to threads. */
  def goThreaded(lane: DirectLane): Iterator[InternalRow]

  def endDirect(lane: DirectLane): Unit
}
