package org.apache.spark.sql.execution.streaming.state

import java.nio.file.Path
import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.types._

import laneshift.testing.LimitedSuite

/** In Spark's package because encoders are private to it. */
class LaneEncodersSuite extends LimitedSuite {
  for (families <- Seq(false, true))
    test(s"what a lane has decoded stays while another decodes, in a column family: $families") {
      ElasticSession.withFolder(lanesDecodeApart(families))
    }

  private val schema = new StructType().add("n", LongType)

  private def row(n: Long): UnsafeRow =
    UnsafeProjection.create(schema)(org.apache.spark.sql.catalyst.InternalRow(n)).copy()

  /** What one lane has decoded stays as it is while another lane of the store decodes; with `families`, in a column family. */
  private def lanesDecodeApart(families: Boolean)(folder: Path): Unit = {
    val family = if (families) "some state" else StateStore.DEFAULT_COL_FAMILY_NAME
    val conf = new StateStoreConf(new SQLConf)
    val hadoop = new Configuration
    hadoop.set(StreamExecution.RUN_ID_KEY, UUID.randomUUID().toString)
    val provider = new ElasticStateStoreProvider
    val id = StateStoreId(folder.toString, 0L, 0)
    val spec = NoPrefixKeyStateEncoderSpec(schema)
    provider.init(id, schema, schema, spec, useColumnFamilies = families, conf, hadoop)
    try {
      val store = provider.getStore(0L).asInstanceOf[RocksDBStateStoreProvider#RocksDBStateStore]
      try {
        val lanes = Seq(0, 1).map { i =>
          val encoders =
            new LaneEncoders(
              id,
              store.dbInstance().delimiterSize,
              EncodingConf(conf, hadoop, columnFamilies = families, None),
              i.toString
            )
          encoders.add(
            family,
            FamilySchema(schema, schema, spec, multipleValues = false)
          )
          encoders(family)
        }
        val encoded = Seq(1L, 2L).map(n => lanes.head.value.encodeValue(row(n)))
        val decoded = lanes.zip(encoded).map { case (lane, bytes) => lane.value.decodeValue(bytes) }
        assert(decoded.map(_.getLong(0)) == Seq(1L, 2L), "a lane's value changed under its hands")
        val keys = lanes.zip(Seq(3L, 4L)).map { case (lane, n) =>
          lane.key.decodeKey(lane.key.encodeKey(row(n)))
        }
        assert(keys.map(_.getLong(0)) == Seq(3L, 4L), "a lane's key changed under its hands")
      } finally store.abort()
    } finally provider.close()
  }
}
