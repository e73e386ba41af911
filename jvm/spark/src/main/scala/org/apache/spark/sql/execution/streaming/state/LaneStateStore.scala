package org.apache.spark.sql.execution.streaming.state

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.laneshift.lane.LaneContext
import org.apache.spark.sql.types.StructType

import laneshift.testing.{Fault, Faults}

/** One lane's view of a shared store: encoders of its own, scans that give the rows of its own shards only, a commit that is a
  * seal until all lanes have sealed. At a lane restart, a commit writes nothing and scans are empty: the batch goes on.
  */
private[sql] final class LaneStateStore private[state] (
    private[state] val shared: SharedStateStore,
    lane: LaneContext,
    encoders: LaneEncoders,
    defaultFamily: FamilySchema
) extends StateStore {
  import StateStore.DEFAULT_COL_FAMILY_NAME

  private val db = shared.db
  private val lock = shared.lock
  private val shards = new LaneShards(lane, id.operatorId, encoders)
  private var sealedByLane = false
  encoders.add(DEFAULT_COL_FAMILY_NAME, defaultFamily)

  override def id: StateStoreId = shared.base.id
  override def version: Long = shared.base.version

  override def createColFamilyIfAbsent(
      name: String,
      keySchema: StructType,
      valueSchema: StructType,
      keySpec: KeyStateEncoderSpec,
      multipleValues: Boolean,
      isInternal: Boolean
  ): Unit = {
    lock.synchronized(
      shared.base.createColFamilyIfAbsent(name, keySchema, valueSchema, keySpec, multipleValues, isInternal)
    )
    encoders.add(name, FamilySchema(keySchema, valueSchema, keySpec, multipleValues))
  }

  override def removeColFamilyIfExists(name: String): Boolean = {
    encoders.remove(name)
    lock.synchronized(shared.base.removeColFamilyIfExists(name))
  }

  override def allColumnFamilyNames: Set[String] = shared.base.allColumnFamilyNames

  // ---- keys of this lane

  override def get(key: UnsafeRow, family: String): UnsafeRow = {
    val e = encoders(family)
    e.value.decodeValue(db.get(e.key.encodeKey(key), family))
  }

  override def keyExists(key: UnsafeRow, family: String): Boolean =
    db.keyExists(encoders(family).key.encodeKey(key), family)

  override def multiGet(keys: Array[UnsafeRow], family: String): Iterator[UnsafeRow] = {
    val e = encoders(family)
    db.multiGet(keys.map(e.key.encodeKey), family).map(e.value.decodeValue)
  }

  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] = {
    val e = encoders(family)
    e.value.decodeValues(db.get(e.key.encodeKey(key), family))
  }

  override def put(key: UnsafeRow, value: UnsafeRow, family: String): Unit = {
    val e = encoders(family)
    val (k, v) = (e.key.encodeKey(key), e.value.encodeValue(value))
    lock.synchronized(db.put(k, v, family))
  }

  override def putList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = {
    val e = encoders(family)
    val (k, vs) = (e.key.encodeKey(key), values.map(e.value.encodeValue).toList)
    lock.synchronized(db.putList(k, vs, family))
  }

  override def merge(key: UnsafeRow, value: UnsafeRow, family: String): Unit = {
    val e = encoders(family)
    val (k, v) = (e.key.encodeKey(key), e.value.encodeValue(value))
    lock.synchronized(db.merge(k, v, family))
  }

  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = {
    val e = encoders(family)
    val (k, vs) = (e.key.encodeKey(key), values.map(e.value.encodeValue).toList)
    lock.synchronized(db.mergeList(k, vs, family))
  }

  override def remove(key: UnsafeRow, family: String): Unit = {
    val k = encoders(family).key.encodeKey(key)
    lock.synchronized(db.remove(k, family))
  }

  override def deleteRange(begin: UnsafeRow, end: UnsafeRow, family: String): Unit = {
    val e = encoders(family)
    val (from, to) = (e.key.encodeKey(begin), e.key.encodeKey(end))
    lock.synchronized(db.deleteRange(from, to, family))
  }

  // ---- scans

  override def iterator(family: String): StateStoreIterator[UnsafeRowPair] = scan(family, all(family), single)

  override def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] =
    scan(family, all(family), multiple)

  override def rangeScan(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      family: String
  ): StateStoreIterator[UnsafeRowPair] = scan(family, range(start, end, family), single)

  override def rangeScanWithMultiValues(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      family: String
  ): StateStoreIterator[UnsafeRowPair] = scan(family, range(start, end, family), multiple)

  /** Every prefix that Spark scans has the whole key that was shuffled by: it reads one key of this lane, at any time. */
  override def prefixScan(prefix: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    rows(family, prefixed(prefix, family), _ => true, single)

  override def prefixScanWithMultiValues(
      prefix: UnsafeRow,
      family: String
  ): StateStoreIterator[UnsafeRowPair] = rows(family, prefixed(prefix, family), _ => true, multiple)

  private def all(family: String): NativeScan.Source =
    if (encoders.columnFamilies) db.iterator(family) else db.iterator()

  private def range(start: Option[UnsafeRow], end: Option[UnsafeRow], family: String): NativeScan.Source = {
    val key = encoders(family).key
    db.rangeScan(start.map(key.encodeKey), end.map(key.encodeKey), family)
  }

  private def prefixed(prefix: UnsafeRow, family: String): NativeScan.Source =
    db.prefixScan(encoders(family).key.encodePrefixKey(prefix), family)

  private type Decode = (LaneEncoders.Pair, Array[Byte]) => Iterator[UnsafeRow]
  private val single: Decode = (e, value) => Iterator.single(value).map(e.value.decodeValue)
  private val multiple: Decode = (e, value) => e.value.decodeValues(value)

  /** The rows of this lane's shards; none while the lane restarts, because the batch goes on. */
  private def scan(
      family: String,
      open: => NativeScan.Source,
      decode: Decode
  ): StateStoreIterator[UnsafeRowPair] =
    if (lane.isRestarting && !Faults.isOn(Fault.RestartScans))
      new StateStoreIterator(Iterator.empty[UnsafeRowPair], () => ())
    else rows(family, open, shards.ownership(family), decode)

  private def rows(
      family: String,
      open: => NativeScan.Source,
      owns: UnsafeRow => Boolean,
      decode: Decode
  ): StateStoreIterator[UnsafeRowPair] = {
    val e = encoders(family)
    val source = new NativeScan(lock, open)
    new StateStoreIterator(new DecodedScan(source, e.key.decodeKey, owns, decode(e, _)), () => source.close())
  }

  // ---- end

  override def commit(): Long = {
    sealedByLane = true
    if (!lane.isRestarting || Faults.isOn(Fault.RestartSeals)) shared.seal(lane.lane)
    shared.nextVersion
  }

  /** The store itself is aborted by the Spark task, after its last lane has ended. */
  override def abort(): Unit = ()
  override def release(): Unit = ()
  override def hasCommitted: Boolean = sealedByLane

  private def speaks: Boolean = !lane.isRestarting && shared.isCommitter(lane.lane)

  override def metrics: StateStoreMetrics =
    if (speaks || (Faults.isOn(Fault.MetricsPerLane) && shared.base.hasCommitted)) shared.base.metrics
    else StateStoreMetrics(0, 0, Map.empty, Map.empty)

  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo =
    if (speaks) shared.base.getStateStoreCheckpointInfo() else shared.sealedInfo
}
