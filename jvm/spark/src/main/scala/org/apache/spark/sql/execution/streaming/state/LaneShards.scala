package org.apache.spark.sql.execution.streaming.state

import java.util.HashMap

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.timers.TimerStateUtils
import org.apache.spark.sql.laneshift.body.{ShardOfHash, SharedPartition}

import laneshift.ids.LaneId
import laneshift.testing.{Fault, Faults}

/** Tells which rows of a store belong to a lane: the shard of a state row is found by hashing, of its key, what the shuffle
  * hashed of the input row, in the same way.
  */
private[state] final class LaneShards(
    lane: LaneId,
    partition: SharedPartition,
    operatorId: Long,
    encoders: LaneEncoders
) {
  private val spec = partition.spec
  private val shardOf = new ShardOfHash(spec.partitions, spec.options.shards)
  private val hashes = new HashMap[String, UnsafeProjection]

  /** The lane of a state row's key, once the input has ended. */
  def owner(family: String): UnsafeRow => Int = {
    val shard = shardIn(family)
    val owners = partition.routing
    key => owners(shard(key))
  }

  /** For one scan that is about to be opened: true for the keys of this lane's shards. A shard that comes while the scan
    * goes on is not among them: what the scan sees of it may be of before its last lane's writes.
    */
  def ownership(family: String): UnsafeRow => Boolean =
    if (partition.participants == 1 || isUnfiltered(family)) _ => true
    else {
      val shard = shardIn(family)
      val opened = partition.routing
      val live = Faults.isOn(Fault.ScanTakesNewShards)
      key => (if (live) partition.routing else opened) (shard(key)) == lane.value
    }

  /** With a planted bug. */
  def isUnfiltered(family: String): Boolean = Faults.isOn(Fault.ScanUnfiltered) ||
    (Faults.isOn(Fault.TimersUnfiltered) && TimerStateUtils.isTimerCFName(family))

  private def shardIn(family: String): UnsafeRow => Int = {
    val hashOf = hashes.computeIfAbsent(family, hash)
    key => shardOf(hashOf(key).getInt(0))
  }

  private def hash(family: String): UnsafeProjection = {
    val key = spec.stateKeys.getOrElse(
      operatorId,
      throw new IllegalStateException(s"the state key of operator $operatorId ($family) is not known")
    )
    val path =
      if (key.grouped && !Faults.isOn(Fault.GroupedKeyFlat)) GroupingKey.path(family, encoders) else Nil
    val fields = key.ordinals.map(GroupingKey.field(encoders(family).schema.key, path, _))
    val seed = if (Faults.isOn(Fault.WrongShardHash)) LaneShards.WrongSeed else LaneShards.ShuffleSeed
    UnsafeProjection.create(Seq(CollationAwareMurmur3Hash(fields, seed)))
  }
}

private[state] object LaneShards {

  /** What `HashPartitioning` hashes with. */
  val ShuffleSeed = 42
  private val WrongSeed = 43
}
