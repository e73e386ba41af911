package org.apache.spark.sql.execution.streaming.state

import java.util.ArrayDeque

import org.apache.spark.sql.laneshift.body.{LaneContext, SharedPartition, StateBytes}

import laneshift.lane.ScanSource

/** A lane's way to a store that is open in its own process. */
private[state] final class LocalStateAccess(
    shared: SharedStateStore,
    lane: LaneContext,
    partition: SharedPartition,
    encoders: LaneEncoders
) extends StateAccess {
  private val db = shared.db
  private val lock = shared.lock
  private val writes = shared.writes(lane.lane)
  private val scans = new OpenScans
  private val shards = new LaneShards(lane.lane, partition, id.operatorId, encoders)

  override def id: StateStoreId = shared.base.id
  override def version: Long = shared.base.version

  override def createFamily(name: String, schema: FamilySchema, isInternal: Boolean): Unit =
    shared.createFamily(name, schema, isInternal)

  override def removeFamily(name: String): Boolean = writes.settled(shared.removeFamily(name))

  override def familyNames: Set[String] = shared.base.allColumnFamilyNames

  // ---- keys of this lane

  override def get(key: Array[Byte], family: String): Array[Byte] = writes.get(key, family)

  override def keyExists(key: Array[Byte], family: String): Boolean = writes.keyExists(key, family)

  override def multiGet(keys: Array[Array[Byte]], family: String): Iterator[Array[Byte]] =
    writes.settled(db.multiGet(keys, family))

  override def put(key: Array[Byte], value: Array[Byte], family: String): Unit =
    writes.put(key, value, family, keep = lane.inputsEnded)

  override def remove(key: Array[Byte], family: String): Unit =
    writes.remove(key, family, keep = lane.inputsEnded)

  override def putList(key: Array[Byte], values: List[Array[Byte]], family: String): Unit =
    direct(db.putList(key, values, family))

  override def merge(key: Array[Byte], value: Array[Byte], family: String): Unit =
    direct(db.merge(key, value, family))

  override def mergeList(key: Array[Byte], values: List[Array[Byte]], family: String): Unit =
    direct(db.mergeList(key, values, family))

  private def direct(write: => Unit): Unit = writes.settled(lock.synchronized(write))

  // ---- scans

  override def prefixScan(prefix: Array[Byte], family: String): LaneScan =
    LaneScan.ofOwn(writes.settled(shared.prefixScan(prefix, family)))

  /** Which shards are this lane's is read before the scan opens: of a shard that comes later it may see what is no more. */
  override def scan(what: StoreScan): LaneScan = {
    writes.settle()
    val owns = shards.ownership(what.family)
    new LaneScan(scans.open(shared.scan(what, NativeScan.ForOne, _)), owns)
  }

  override def scanTogether(what: StoreScan): Option[LaneScan] =
    if (!lane.inputsEnded || partition.participants == 1) None
    else {
      writes.settle()
      Option(partition.scanTogether(lane.lane, what)(shared.scan(what, NativeScan.ForSeveral))).map { part =>
        val decodeKey = encoders(what.family).key.decodeKey _
        val owner = shards.owner(what.family)
        LaneScan.ofOwn(new ScanSource[StateBytes] {
          override def fetch(): ArrayDeque[StateBytes] = part.take(bytes => owner(decodeKey(bytes.key)))
          override def close(): Unit = part.close()
        })
      }
    }

  // ---- end

  override def settle(): Unit = writes.settle()
  override def seal(): Unit = shared.seal(lane.lane)
  override def forceSnapshot(): Unit = shared.forceSnapshot()

  override def metrics: StateStoreMetrics =
    if (speaks) shared.base.metrics
    else StateStoreMetrics(0, 0, Map.empty, Map.empty)

  override def checkpointInfo: StateStoreCheckpointInfo =
    if (speaks) shared.base.getStateStoreCheckpointInfo() else shared.sealedInfo

  private def speaks: Boolean = !lane.isRestarting && shared.isCommitter(lane.lane)
}
