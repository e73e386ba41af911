package org.apache.spark.sql.laneshift.rescale

import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils.STATEFUL_STREAMLINE_AGGREGATE_EXEC_OP_NAME
import org.apache.spark.sql.functions._

/** Compares all state of a checkpoint's batch with that of another checkpoint, read by Spark's own data source. */
private[rescale] final class StateCheck(session: SparkSession, checkpoint: Checkpoint, batch: Long) {

  /** Throws unless `other` has the same rows of the same batch, each once, in the partition of its key out of `partitions`;
    * gives how many.
    */
  def same(other: String, partitions: Int): Long = session.withActive {
    val stores =
      for (o <- checkpoint.operators(batch); s <- o.stateStoresMetadata) yield (o.operatorInfo, s.storeName)
    stores.map { case (operator, store) =>
      val id = operator.operatorId
      // The data source does not know where Real-time Mode's aggregation has its key, only its rows.
      val plain = operator.operatorName == STATEFUL_STREAMLINE_AGGREGATE_EXEC_OP_NAME
      def read(at: String) = Twin.read(session, at, batch, id, store, asBytes = !plain)
      val row = if (plain) Seq(col("key"), col("value")) else Seq(col("key_bytes"), col("value_bytes"))
      val family = if (plain) lit(store) else col("column_family_name")
      val (old, made) = (summary(read(checkpoint.root), family, row), summary(read(other), family, row))
      if (old != made)
        throw new IllegalStateException(s"state of operator $id ($store): $made was written for $old")
      val (key, at) =
        if (plain) (col("key"), col("partition_id")) else (col("partition_key"), spark_partition_id())
      val astray = read(other).where(at =!= pmod(hash(key), lit(partitions))).count()
      if (astray > 0)
        throw new IllegalStateException(
          s"state of operator $id ($store): $astray rows are in another partition than their key"
        )
      old.values.map(_._1).sum
    }.sum
  }

  /** By column family: how many rows, and two sums that another set of rows would not have. */
  private def summary(rows: DataFrame, family: Column, row: Seq[Column]): Map[String, (Long, String)] = rows
    .groupBy(family)
    .agg(
      count(lit(1)),
      sum(xxhash64(row: _*).cast("decimal(38,0)")).cast("string"),
      sum(hash(row.reverse: _*).cast("decimal(38,0)")).cast("string")
    )
    .collect()
    .map(r => r.getString(0) -> (r.getLong(1), s"${r.getString(2)} ${r.getString(3)}"))
    .toMap
}
