package org.apache.spark.sql.execution.streaming.state

import java.util.HashMap

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.laneshift.lane.{LaneContext, ShardOfHash}

import laneshift.testing.{Fault, Faults}

/** Tells which rows of a store belong to a lane: the shard of a state row is found by hashing, of its key, the fields that the
  * shuffle hashed of the input row, in the same way.
  */
private[state] final class LaneShards(lane: LaneContext, operatorId: Long) {
  private val task = lane.task
  private val spec = task.spec
  private val shardOf = new ShardOfHash(spec.partitions, spec.options.shards)

  private val byFamily = new HashMap[String, UnsafeRow => Boolean]

  /** True for the keys of this lane's shards. Made once per family: a join scans for every row. */
  def ownership(family: String, schema: FamilySchema): UnsafeRow => Boolean =
    byFamily.computeIfAbsent(family, _ => test(family, schema))

  private def test(family: String, schema: FamilySchema): UnsafeRow => Boolean =
    if (Faults.isOn(Fault.ScanUnfiltered)) _ => true
    else {
      val ordinals = spec.keyOrdinals.getOrElse(
        operatorId,
        throw new IllegalStateException(s"the state key of operator $operatorId ($family) is not known")
      )
      val fields = ordinals.map(i => BoundReference(i, schema.key(i).dataType, schema.key(i).nullable))
      val seed = if (Faults.isOn(Fault.WrongShardHash)) LaneShards.WrongSeed else LaneShards.ShuffleSeed
      val hashOf = UnsafeProjection.create(Seq(CollationAwareMurmur3Hash(fields, seed)))
      key => task.owns(lane.lane, shardOf(hashOf(key).getInt(0)))
    }
}

private[state] object LaneShards {

  /** What `HashPartitioning` hashes with. */
  val ShuffleSeed = 42
  private val WrongSeed = 43
}
