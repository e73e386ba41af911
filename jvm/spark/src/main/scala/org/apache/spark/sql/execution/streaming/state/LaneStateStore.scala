package org.apache.spark.sql.execution.streaming.state

import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.laneshift.body.LaneContext
import org.apache.spark.sql.types.StructType

/** One lane's view of a store: encoders of its own, scans that give the rows of its own shards only, a commit that is a seal
  * until all lanes have sealed. At a lane restart, a commit writes nothing and scans are empty: the batch goes on.
  */
private[sql] final class LaneStateStore private[state] (
    private[state] val access: StateAccess,
    lane: LaneContext,
    encoders: LaneEncoders,
    defaultFamily: FamilySchema
) extends StateStore {
  import StateStore.DEFAULT_COL_FAMILY_NAME

  private var sealedByLane = false
  encoders.add(DEFAULT_COL_FAMILY_NAME, defaultFamily)

  override def id: StateStoreId = access.id
  override def version: Long = access.version

  override def createColFamilyIfAbsent(
      name: String,
      keySchema: StructType,
      valueSchema: StructType,
      keySpec: KeyStateEncoderSpec,
      multipleValues: Boolean,
      isInternal: Boolean
  ): Unit = {
    val schema = FamilySchema(keySchema, valueSchema, keySpec, multipleValues)
    access.createFamily(name, schema, isInternal)
    encoders.add(name, schema)
  }

  override def removeColFamilyIfExists(name: String): Boolean = {
    encoders.remove(name)
    access.removeFamily(name)
  }

  override def allColumnFamilyNames: Set[String] = access.familyNames

  // ---- keys of this lane

  override def get(key: UnsafeRow, family: String): UnsafeRow = {
    val e = encoders(family)
    e.read(key, e.value.decodeValue(access.get(e.key.encodeKey(key), family)))
  }

  override def keyExists(key: UnsafeRow, family: String): Boolean =
    access.keyExists(encoders(family).key.encodeKey(key), family)

  override def multiGet(keys: Array[UnsafeRow], family: String): Iterator[UnsafeRow] = {
    val e = encoders(family)
    access.multiGet(keys.map(e.key.encodeKey), family).map(e.value.decodeValue)
  }

  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] = {
    val e = encoders(family)
    e.value.decodeValues(access.get(e.key.encodeKey(key), family))
  }

  override def put(key: UnsafeRow, value: UnsafeRow, family: String): Unit = {
    val e = encoders(family)
    access.put(e.key.encodeKey(key), e.value.encodeValue(value), family)
  }

  override def remove(key: UnsafeRow, family: String): Unit =
    access.remove(encoders(family).key.encodeKey(key), family)

  override def putList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = {
    val e = encoders(family)
    access.putList(e.key.encodeKey(key), values.map(e.value.encodeValue).toList, family)
  }

  override def merge(key: UnsafeRow, value: UnsafeRow, family: String): Unit = {
    val e = encoders(family)
    access.merge(e.key.encodeKey(key), e.value.encodeValue(value), family)
  }

  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = {
    val e = encoders(family)
    access.mergeList(e.key.encodeKey(key), values.map(e.value.encodeValue).toList, family)
  }

  /** Of this lane's shards only: the range may hold keys of others. No operator of Spark 4.3 asks for it. */
  override def deleteRange(begin: UnsafeRow, end: UnsafeRow, family: String): Unit = {
    val rows = decoded(family, access.scan(between(family, Some(begin), Some(end))), single)
    try rows.foreach(pair => remove(pair.key, family))
    finally rows.close()
  }

  // ---- scans

  override def iterator(family: String): StateStoreIterator[UnsafeRowPair] = scan(family, None, None, single)

  override def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] =
    scan(family, None, None, multiple)

  override def rangeScan(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      family: String
  ): StateStoreIterator[UnsafeRowPair] = scan(family, start, end, single)

  override def rangeScanWithMultiValues(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      family: String
  ): StateStoreIterator[UnsafeRowPair] = scan(family, start, end, multiple)

  override def prefixScan(prefix: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    ofOneKey(prefix, family, single)

  override def prefixScanWithMultiValues(
      prefix: UnsafeRow,
      family: String
  ): StateStoreIterator[UnsafeRowPair] = ofOneKey(prefix, family, multiple)

  private type Decode = (LaneEncoders.Pair, Array[Byte]) => Iterator[UnsafeRow]
  private val single: Decode = (e, value) => Iterator.single(value).map(e.value.decodeValue)
  private val multiple: Decode = (e, value) => e.value.decodeValues(value)

  /** Every prefix that Spark scans has the whole key that was shuffled by: it reads one key of this lane, at any time. */
  private def ofOneKey(prefix: UnsafeRow, family: String, decode: Decode) =
    decoded(family, access.prefixScan(encoders(family).key.encodePrefixKey(prefix), family), decode)

  /** The rows of this lane's shards; none while the lane restarts, because the batch goes on. */
  private def scan(
      family: String,
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      decode: Decode
  ): StateStoreIterator[UnsafeRowPair] =
    if (lane.isRestarting)
      new StateStoreIterator(Iterator.empty[UnsafeRowPair], () => ())
    else {
      val what = between(family, start, end)
      decoded(family, access.scanTogether(what).getOrElse(access.scan(what)), decode)
    }

  private def between(family: String, start: Option[UnsafeRow], end: Option[UnsafeRow]): StoreScan = {
    val key = encoders(family).key
    def bytes(bound: Option[UnsafeRow]) = bound.map(row => ByteBuffer.wrap(key.encodeKey(row)))
    StoreScan(id, family, bytes(start), bytes(end))
  }

  private def decoded(family: String, rows: LaneScan, decode: Decode): StateStoreIterator[UnsafeRowPair] = {
    val e = encoders(family)
    val source = rows.source
    val scan =
      new DecodedScan(() => source.fetch(), e.key.decodeKey, rows.owns, decode(e, _), () => source.close())
    def read(pair: UnsafeRowPair) = { e.read(pair.key, pair.value); pair }
    new StateStoreIterator(if (e.isValidated) scan else scan.map(read), () => scan.close())
  }

  // ---- end

  override def commit(): Long = {
    sealedByLane = true
    access.settle()
    if (!lane.isRestarting) {
      lane.flushOutputs()
      access.seal()
    }
    version + 1
  }

  /** The store itself is aborted by the Spark task, after its last lane has ended. */
  override def abort(): Unit = ()
  override def release(): Unit = ()
  override def hasCommitted: Boolean = sealedByLane

  override def metrics: StateStoreMetrics = access.metrics
  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo = access.checkpointInfo
}
