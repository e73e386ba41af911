package org.apache.spark.sql.execution.streaming.state

import java.util.HashMap

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

private[state] final case class EncodingConf(
    store: StateStoreConf,
    hadoop: Configuration,
    columnFamilies: Boolean,
    schemas: Option[StateSchemaProvider]
)

/** The state encoders of one lane. Spark's reuse row buffers, so two threads may not share one; its cache of data encoders
  * goes by store name, so each user asks under a name of its own (design fact 9).
  *
  * @param user tells threads of one process apart
  */
private[state] final class LaneEncoders(
    id: StateStoreId,
    delimiterSize: Int,
    conf: EncodingConf,
    user: String
) {
  private val byFamily = new HashMap[String, LaneEncoders.Pair]

  def add(name: String, schema: FamilySchema): Unit = {
    val data = RocksDBStateStoreProvider.getDataEncoder(
      conf.store.stateStoreEncodingFormat,
      StateRowEncoderCacheKey(
        StateStoreProvider.getRunId(conf.hadoop),
        id.operatorId,
        id.partitionId,
        s"${id.storeName}#$user",
        name
      ),
      schema.keySpec,
      schema.value,
      conf.schemas,
      Some(name)
    )
    byFamily.put(
      name,
      new LaneEncoders.Pair(
        RocksDBStateEncoder.getKeyEncoder(data, schema.keySpec, conf.columnFamilies),
        RocksDBStateEncoder.getValueEncoder(data, schema.value, schema.multipleValues, delimiterSize),
        schema,
        // As Spark's stores do.
        StateStoreProvider.validateStateRowFormat(_, schema.key, _, schema.value, id, conf.store),
        trusted = conf.columnFamilies
      )
    )
  }

  def remove(name: String): Unit = byFamily.remove(name)

  def apply(name: String): LaneEncoders.Pair = {
    val pair = byFamily.get(name)
    if (pair == null) throw StateStoreErrors.unsupportedOperationOnMissingColumnFamily("access", name)
    pair
  }
}

private[state] object LaneEncoders {

  /** Of one column family.
    *
    * @param validate throws if a key and its value are not rows of the family's schemas: what a store holds may be of another query
    * @param trusted whether it is not asked
    */
  final class Pair(
      val key: RocksDBKeyStateEncoder,
      val value: RocksDBValueStateEncoder,
      val schema: FamilySchema,
      validate: (UnsafeRow, UnsafeRow) => Unit,
      trusted: Boolean
  ) {
    private var asks = !trusted

    /** Whether nothing that is read is asked any more. */
    def isValidated: Boolean = !asks

    /** The value, if there is any: the first that is read is validated. */
    def read(key: UnsafeRow, value: UnsafeRow): UnsafeRow = {
      if (asks && value != null) {
        validate(key, value)
        asks = false
      }
      value
    }
  }
}
