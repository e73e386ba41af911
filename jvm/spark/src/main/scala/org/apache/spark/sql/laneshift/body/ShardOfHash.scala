package org.apache.spark.sql.laneshift.body

/** The shard of a key from the hash that the shuffle takes of it. The shuffle keeps the hash modulo the partitions; this
  * takes it modulo partitions x shards and divides: within one partition, that uses what the shuffle has left over.
  */
private[sql] final class ShardOfHash(partitions: Int, shards: Int) {
  private val modulus = Math.multiplyExact(partitions, shards)

  def apply(hash: Int): Int = Math.floorMod(hash, modulus) / partitions
}
