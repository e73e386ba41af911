package org.apache.spark.sql.execution.streaming.state

import java.nio.ByteBuffer
import java.util.ArrayDeque

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.laneshift.body.{LaneContext, SharedPartition, StateBytes}
import org.apache.spark.sql.types.StructType

import laneshift.testing.{Fault, Faults}

/** One lane's view of a shared store: encoders of its own, scans that give the rows of its own shards only, a commit that is a
  * seal until all lanes have sealed. At a lane restart, a commit writes nothing and scans are empty: the batch goes on.
  */
private[sql] final class LaneStateStore private[state] (
    private[state] val shared: SharedStateStore,
    lane: LaneContext,
    partition: SharedPartition,
    encoders: LaneEncoders,
    defaultFamily: FamilySchema
) extends StateStore {
  import StateStore.DEFAULT_COL_FAMILY_NAME

  private val db = shared.db
  private val lock = shared.lock
  private val writes = shared.writes(lane.lane)
  private val shards = new LaneShards(lane.lane, partition, id.operatorId, encoders)
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
    writes.settled(lock.synchronized(shared.base.removeColFamilyIfExists(name)))
  }

  override def allColumnFamilyNames: Set[String] = shared.base.allColumnFamilyNames

  // ---- keys of this lane

  override def get(key: UnsafeRow, family: String): UnsafeRow = {
    val e = encoders(family)
    e.value.decodeValue(writes.get(e.key.encodeKey(key), family))
  }

  override def keyExists(key: UnsafeRow, family: String): Boolean =
    writes.keyExists(encoders(family).key.encodeKey(key), family)

  override def multiGet(keys: Array[UnsafeRow], family: String): Iterator[UnsafeRow] = {
    val e = encoders(family)
    writes.settled(db.multiGet(keys.map(e.key.encodeKey), family)).map(e.value.decodeValue)
  }

  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] = {
    val e = encoders(family)
    e.value.decodeValues(writes.settled(db.get(e.key.encodeKey(key), family)))
  }

  override def put(key: UnsafeRow, value: UnsafeRow, family: String): Unit = {
    val e = encoders(family)
    writes.put(e.key.encodeKey(key), e.value.encodeValue(value), family, keep = lane.inputsEnded)
  }

  override def remove(key: UnsafeRow, family: String): Unit =
    writes.remove(encoders(family).key.encodeKey(key), family, keep = lane.inputsEnded)

  override def putList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = {
    val e = encoders(family)
    val (k, vs) = (e.key.encodeKey(key), values.map(e.value.encodeValue).toList)
    direct(db.putList(k, vs, family))
  }

  override def merge(key: UnsafeRow, value: UnsafeRow, family: String): Unit = {
    val e = encoders(family)
    val (k, v) = (e.key.encodeKey(key), e.value.encodeValue(value))
    direct(db.merge(k, v, family))
  }

  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = {
    val e = encoders(family)
    val (k, vs) = (e.key.encodeKey(key), values.map(e.value.encodeValue).toList)
    direct(db.mergeList(k, vs, family))
  }

  /** Of this lane's shards only: the range may hold keys of others. No operator of Spark 4.3 asks for it. */
  override def deleteRange(begin: UnsafeRow, end: UnsafeRow, family: String): Unit = {
    val key = encoders(family).key
    def bound(row: UnsafeRow) = Some(ByteBuffer.wrap(key.encodeKey(row)))
    val rows = alone(StoreScan(id, family, bound(begin), bound(end)), single)
    try rows.foreach(pair => remove(pair.key, family))
    finally rows.close()
  }

  private def direct(write: => Unit): Unit = writes.settled(lock.synchronized(write))

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
  private def ofOneKey(prefix: UnsafeRow, family: String, decode: Decode) = {
    val bytes = encoders(family).key.encodePrefixKey(prefix)
    writes.settle()
    rows(family, new NativeScan(lock, db.prefixScan(bytes, family)), _ => true, decode)
  }

  /** The rows of this lane's shards; none while the lane restarts, because the batch goes on. */
  private def scan(
      family: String,
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      decode: Decode
  ): StateStoreIterator[UnsafeRowPair] =
    if (lane.isRestarting && !Faults.isOn(Fault.RestartScans))
      new StateStoreIterator(Iterator.empty[UnsafeRowPair], () => ())
    else {
      val key = encoders(family).key
      def bytes(bound: Option[UnsafeRow]) = bound.map(row => ByteBuffer.wrap(key.encodeKey(row)))
      val what = StoreScan(id, family, bytes(start), bytes(end))
      writes.settle()
      together(what, decode).getOrElse(alone(what, decode))
    }

  /** Which shards are this lane's is read before the scan opens: of a shard that comes later it may see what is no more. */
  private def alone(what: StoreScan, decode: Decode): StateStoreIterator[UnsafeRowPair] = {
    val owns = shards.ownership(what.family)
    rows(what.family, open(what, NativeScan.ForOne), owns, decode)
  }

  /** With the other lanes, once nothing moves any more and there are others. */
  private def together(what: StoreScan, decode: Decode): Option[StateStoreIterator[UnsafeRowPair]] =
    if (!lane.inputsEnded || partition.participants == 1 || shards.isUnfiltered(what.family)) None
    else {
      val part = partition.scanTogether(lane.lane, what)(open(what, NativeScan.ForSeveral))
      Option(part).map { part =>
        val decodeKey = encoders(what.family).key.decodeKey _
        val owner = shards.owner(what.family)
        val fetch = () => part.take(bytes => owner(decodeKey(bytes.key)))
        decoded(what.family, fetch, () => part.close(), _ => true, decode)
      }
    }

  private def open(what: StoreScan, few: Int): NativeScan = {
    val (start, end) = (what.start.map(_.array), what.end.map(_.array))
    new NativeScan(
      lock,
      if (start.isDefined || end.isDefined) db.rangeScan(start, end, what.family)
      else if (encoders.columnFamilies) db.iterator(what.family)
      else db.iterator(),
      few
    )
  }

  private def rows(family: String, source: NativeScan, owns: UnsafeRow => Boolean, decode: Decode) =
    decoded(family, () => source.fetch(), () => source.close(), owns, decode)

  private def decoded(
      family: String,
      fetch: () => ArrayDeque[StateBytes],
      close: () => Unit,
      owns: UnsafeRow => Boolean,
      decode: Decode
  ): StateStoreIterator[UnsafeRowPair] = {
    val e = encoders(family)
    val scan = new DecodedScan(fetch, e.key.decodeKey, owns, decode(e, _), close)
    new StateStoreIterator(scan, () => scan.close())
  }

  // ---- end

  override def commit(): Long = {
    sealedByLane = true
    if (!Faults.isOn(Fault.SealBeforeWrites)) writes.settle()
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

/** A scan of a store: of one column family, between two encoded keys. */
private[state] final case class StoreScan(
    store: StateStoreId,
    family: String,
    start: Option[ByteBuffer],
    end: Option[ByteBuffer]
)
