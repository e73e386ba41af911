package org.apache.spark.sql.execution.streaming.state

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.laneshift.body.SharedPartition

import laneshift.ids.LaneId

/** Tells which rows of a store belong to a lane, by their shards. */
private[state] final class LaneShards(
    lane: LaneId,
    partition: SharedPartition,
    operatorId: Long,
    encoders: LaneEncoders
) {
  private val shards = new KeyShards(partition.spec, operatorId, encoders)

  /** The lane of a state row's key, once the input has ended. */
  def owner(family: String): UnsafeRow => Int = {
    val shard = shards.in(family)
    val owners = partition.routing
    key => owners(shard(key))
  }

  /** For one scan that is about to be opened: true for the keys of this lane's shards. A shard that comes while the scan
    * goes on is not among them: what the scan sees of it may be of before its last lane's writes.
    */
  def ownership(family: String): UnsafeRow => Boolean = {
    // First: it waits where lanes are still to become final.
    val opened = partition.routing
    if (partition.participants == 1) _ => true
    else {
      val shard = shards.in(family)
      key => opened(shard(key)) == lane.value
    }
  }
}
