package org.apache.spark.sql.execution.streaming.state

import java.util.HashMap

import org.apache.spark.sql.catalyst.expressions.{CollationAwareMurmur3Hash, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.laneshift.body.ShardOfHash
import org.apache.spark.sql.laneshift.spec.ElasticSpec

/** Tells the shard of a state row, by hashing, of its key, what the shuffle hashed of the input row, in the same way. One
  * thread uses it.
  */
private[state] final class KeyShards(spec: ElasticSpec, operatorId: Long, encoders: LaneEncoders) {
  private val shardOf = new ShardOfHash(spec.partitions, spec.options.shards)
  private val hashes = new HashMap[String, UnsafeProjection]

  /** The shard of a key of this column family. */
  def in(family: String): UnsafeRow => Int = {
    val hashOf = hashes.computeIfAbsent(family, hash)
    key => shardOf(hashOf(key).getInt(0))
  }

  private def hash(family: String): UnsafeProjection = {
    val key = spec.stateKeys.getOrElse(
      operatorId,
      throw new IllegalStateException(s"the state key of operator $operatorId ($family) is not known")
    )
    val path = if (key.grouped) GroupingKey.path(family, encoders) else Nil
    val fields = key.ordinals.map(GroupingKey.field(encoders(family).schema.key, path, _))
    UnsafeProjection.create(Seq(CollationAwareMurmur3Hash(fields, KeyShards.ShuffleSeed)))
  }
}

private object KeyShards {

  /** What `HashPartitioning` hashes with. */
  private val ShuffleSeed = 42
}
