package org.apache.spark.sql.execution.streaming.state

import java.nio.ByteBuffer
import java.util.{Arrays, HashMap}

import org.apache.spark.sql.laneshift.body.LaneContext

/** The way to a store of a lane away from home. Where shards move within a batch the lane ends without the batch's end, which
  * is home's. Otherwise it takes part in it: by scans and a seal at home.
  */
private[state] final class HostStateAccess(
    override val id: StateStoreId,
    override val version: Long,
    stores: HostStores,
    lane: LaneContext,
    opened: StateAnswer.Opened,
    encoders: LaneEncoders
) extends StateAccess {
  private val store = opened.store
  private val delimiter = HostStateAccess.delimiter(opened.delimiterSize)
  private val shards = new KeyShards(stores.spec, id.operatorId, encoders)
  private var committed = Option.empty[StateAnswer.Committed]
  private val shardsOf = new HashMap[String, Array[Byte] => Int]

  override def createFamily(name: String, schema: FamilySchema, isInternal: Boolean): Unit =
    stores.createFamily(store, name, schema, isInternal)

  override def removeFamily(name: String): Boolean = {
    shardsOf.remove(name)
    stores.removeFamily(store, name)
  }

  override def familyNames: Set[String] = stores.familyNames(store)

  // ---- keys of this lane

  override def get(key: Array[Byte], family: String): Array[Byte] = read(key, family).value(delimiter)

  override def keyExists(key: Array[Byte], family: String): Boolean = read(key, family).isThere

  private def read(key: Array[Byte], family: String): Held = {
    val table = stores.table(store, family)
    stores.read(new StateKey(table, key), shardOf(family), soon(table, family))
  }

  /** What will be read next in this column family. */
  private def soon(table: Int, family: String): Seq[Array[Byte]] = {
    val pair = encoders(family)
    stores.soon(id.operatorId, table, pair.schema).map(pair.key.encodeKey)
  }

  override def multiGet(keys: Array[Array[Byte]], family: String): Iterator[Array[Byte]] = {
    val table = stores.table(store, family)
    stores.read(keys.map(new StateKey(table, _)), shardOf(family)).iterator.map(_.value(delimiter))
  }

  override def put(key: Array[Byte], value: Array[Byte], family: String): Unit =
    write(key, family, Held.whole(value))(StateWrite.Put(_, key, value))

  override def remove(key: Array[Byte], family: String): Unit =
    write(key, family, Held.whole(null))(StateWrite.Remove(_, key))

  override def putList(key: Array[Byte], values: List[Array[Byte]], family: String): Unit =
    write(key, family, Held.whole(Held.joined(values, delimiter)))(StateWrite.PutList(_, key, values))

  override def merge(key: Array[Byte], value: Array[Byte], family: String): Unit =
    mergeOnto(key, family, value)(StateWrite.Merge(_, key, value))

  override def mergeList(key: Array[Byte], values: List[Array[Byte]], family: String): Unit =
    mergeOnto(key, family, Held.joined(values, delimiter))(StateWrite.MergeList(_, key, values))

  private def write(key: Array[Byte], family: String, after: Held)(write: Int => StateWrite): Unit = {
    val table = stores.table(store, family)
    stores.write(write(table), new StateKey(table, key), after, shardOf(family))
  }

  private def mergeOnto(
      key: Array[Byte],
      family: String,
      value: Array[Byte]
  )(write: Int => StateWrite): Unit = {
    val table = stores.table(store, family)
    stores.merge(write(table), new StateKey(table, key), value, delimiter, shardOf(family))
  }

  private def shardOf(family: String): Array[Byte] => Int = shardsOf.computeIfAbsent(
    family,
    _ => {
      val (shard, decodeKey) = (shards.in(family), encoders(family).key.decodeKey _)
      key => shard(decodeKey(key))
    }
  )

  // ---- scans

  override def prefixScan(prefix: Array[Byte], family: String): LaneScan = {
    val table = stores.table(store, family)
    def begins(key: Array[Byte]) =
      key.length >= prefix.length && Arrays.equals(key, 0, prefix.length, prefix, 0, prefix.length)
    LaneScan.ofOwn(stores.scan(StateRequest.PrefixScan(table, prefix), table, begins, delimiter))
  }

  /** Home leaves out what is not this lane's. Among the rows may be some of a shard whose arrival is yet to be told here:
    * what is cached of it is as old as its departure.
    */
  override def scan(what: StoreScan): LaneScan = {
    val table = stores.table(store, what.family)
    val (start, end) = (what.start.map(bytes), what.end.map(bytes))
    def isWithin(key: Array[Byte]) = start.forall(Arrays.compareUnsigned(_, key) <= 0) &&
      end.forall(Arrays.compareUnsigned(key, _) < 0)
    stores.forgetRead()
    LaneScan.ofOwn(stores.scan(StateRequest.Scan(table, start, end), table, isWithin, delimiter))
  }

  private def bytes(bound: ByteBuffer): Array[Byte] = bound.array

  override def scanTogether(what: StoreScan): Option[LaneScan] =
    if (!lane.inputsEnded) None
    else {
      val table = stores.table(store, what.family)
      val scan = StateRequest.ScanTogether(table, what.start.map(bytes), what.end.map(bytes))
      stores.scanTogether(scan, delimiter).map(LaneScan.ofOwn)
    }

  // ---- end

  /** Within a batch, who may look for what is written looks when it has come home in a frame. */
  override def settle(): Unit = if (stores.spec.isFixed) stores.settle()

  override def seal(): Unit =
    if (stores.spec.isFixed) committed = stores.seal(store)
    else throw new IllegalStateException(s"a lane away from home ends the batch on state store $id")

  /** Lanes at home are told the same. */
  override def forceSnapshot(): Unit = ()

  override def metrics: StateStoreMetrics =
    committed.fold(StateStoreMetrics(0, 0, Map.empty, Map.empty))(_.metrics)

  override def checkpointInfo: StateStoreCheckpointInfo =
    committed.fold(SharedStateStore.sealedInfo(id, version, opened.hasBaseId))(_.info)
}

private object HostStateAccess {

  /** What Spark's database puts between merged values: a comma by its first merge operator, nothing by its second. */
  private def delimiter(size: Int): Array[Byte] = size match {
    case 0 => Array.emptyByteArray
    case 1 => Array(','.toByte)
    case other => throw new IllegalArgumentException(s"Spark has no delimiter of $other bytes between values")
  }
}
