package org.apache.spark.sql.laneshift.rescale

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.functions._

/** Compares all state of a checkpoint's batch with that of another checkpoint, read by Spark's own data source. */
private[rescale] final class StateCheck(session: SparkSession, checkpoint: Checkpoint, batch: Long) {

  /** Throws unless `other` has the same rows of the same batch, each once, in the partition of its key out of `partitions`;
    * gives how many.
    */
  def same(other: String, partitions: Int): Long = {
    val stores = for (o <- checkpoint.operators(batch); s <- o.stateStoresMetadata) yield (o, s.storeName)
    stores.map { case (operator, store) =>
      val id = operator.operatorInfo.operatorId
      val (old, made) = (summary(read(checkpoint.root, id, store)), summary(read(other, id, store)))
      if (old != made)
        throw new IllegalStateException(s"state of operator $id ($store): $made was written for $old")
      val astray = read(other, id, store)
        .where(spark_partition_id() =!= pmod(hash(col("partition_key")), lit(partitions)))
        .count()
      if (astray > 0)
        throw new IllegalStateException(s"state of operator $id ($store): $astray rows are in another partition than their key")
      old.values.map(_._1).sum
    }.sum
  }

  private def read(at: String, operator: Long, store: String): DataFrame =
    Twin.read(session, at, batch, operator, store)

  /** By column family: how many rows, and two sums that another set of rows would not have. */
  private def summary(rows: DataFrame): Map[String, (Long, String)] = rows
    .groupBy("column_family_name")
    .agg(
      count(lit(1)),
      sum(xxhash64(col("key_bytes"), col("value_bytes")).cast("decimal(38,0)")).cast("string"),
      sum(hash(col("value_bytes"), col("key_bytes")).cast("decimal(38,0)")).cast("string")
    )
    .collect()
    .map(r => r.getString(0) -> (r.getLong(1), s"${r.getString(2)} ${r.getString(3)}"))
    .toMap
}
