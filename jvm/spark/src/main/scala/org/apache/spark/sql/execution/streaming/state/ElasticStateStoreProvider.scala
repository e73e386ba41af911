package org.apache.spark.sql.execution.streaming.state

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.laneshift.body.{LaneContext, SharedPartition}
import org.apache.spark.sql.types.StructType

import laneshift.lane.CoreShare

/** What is needed to make the encoders of one column family. */
private[state] final case class FamilySchema(
    key: StructType,
    value: StructType,
    keySpec: KeyStateEncoderSpec,
    multipleValues: Boolean
)

/** Spark's RocksDB provider, whose stores the lanes of one elastic partition can share. Files, changelog, snapshots,
  * checkpoint ids, maintenance and memory accounting are Spark's; outside a lane it is Spark's provider. For lanes away from
  * home it has no database: their stores are open elsewhere, and one instance may serve several lanes, each on its own thread.
  *
  * In Spark's own package because encoders, run ids and the delimiter's size are private to it (design fact 9).
  */
class ElasticStateStoreProvider extends OwnRocksDBProvider {
  private var id: StateStoreId = _
  private var isAway = false
  private var family: FamilySchema = _
  private var storeConf: StateStoreConf = _
  private var hadoopConf: Configuration = _
  private var columnFamilies = false
  private var schemas: Option[StateSchemaProvider] = None

  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConf: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]
  ): Unit = {
    this.id = stateStoreId
    this.isAway = remote.isDefined
    this.family = FamilySchema(keySchema, valueSchema, keyStateEncoderSpec, useMultipleValuesPerKey)
    this.storeConf = storeConf
    this.hadoopConf = hadoopConf
    this.columnFamilies = useColumnFamilies
    this.schemas = stateSchemaProvider
    if (isAway) StoresOfHosts.opened(stateStoreId, StateStoreProvider.getRunId(hadoopConf), this)
    else
      super.init(
        stateStoreId,
        keySchema,
        valueSchema,
        keyStateEncoderSpec,
        useColumnFamilies,
        storeConf,
        hadoopConf,
        useMultipleValuesPerKey,
        stateSchemaProvider
      )
  }

  override protected def database(parts: DatabaseParts): RocksDB = new RecordingRocksDB(parts)

  override def stateStoreId: StateStoreId = id

  override def getStore(
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore = away(version).getOrElse(
    inLane(uniqueId)(super.getStore(version, uniqueId, forceSnapshotOnCommit, loadEmpty))
  )

  /** In a lane this opens for writing at once: Spark may load the database anew when a store goes over from reading to
    * writing (it does for an empty store with checkpoint ids), while other lanes still read from it.
    */
  override def getReadStore(version: Long, uniqueId: Option[String]): StateStore =
    away(version).getOrElse(
      if (lane.isDefined)
        inLane(uniqueId)(super.getStore(version, uniqueId, forceSnapshotOnCommit = false, loadEmpty = false))
      else waiting(super.getReadStore(version, uniqueId))
    )

  override def upgradeReadStoreToWriteStore(
      readStore: ReadStateStore,
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean
  ): StateStore = readStore match {
    case store: LaneStateStore =>
      if (forceSnapshotOnCommit) store.access.forceSnapshot()
      store
    case other => super.upgradeReadStoreToWriteStore(other, version, uniqueId, forceSnapshotOnCommit)
  }

  override def doMaintenance(): Unit = if (!isAway) super.doMaintenance()
  override def doSnapshotMaintenance(): Unit = if (!isAway) super.doSnapshotMaintenance()
  override def doCleanupMaintenance(): Unit = if (!isAway) super.doCleanupMaintenance()
  override def close(): Unit = if (isAway) StoresOfHosts.closed(this) else super.close()

  /** The stores of the lane that this thread runs, if it is away from home. */
  private def remote: Option[HostStores] =
    LaneContext.get.flatMap(_.remoteState).collect { case stores: HostStores => stores }

  /** Away from home, the lane's view of the store that is open there. */
  private def away(version: Long): Option[StateStore] = {
    if (isAway && remote.isEmpty)
      throw new IllegalStateException(s"state store $id is open elsewhere, for lanes only")
    for (stores <- remote; context <- LaneContext.get) yield {
      val opened = stores.open(id, version, family)
      val encoders = new LaneEncoders(id, opened.delimiterSize, encoding, stores.user)
      new LaneStateStore(
        new HostStateAccess(id, version, stores, context, opened, encoders),
        context,
        encoders,
        family
      )
    }
  }

  /** The lane that this thread runs, unless it runs Spark's own path, and its partition. */
  private def lane: Option[(LaneContext, SharedPartition)] =
    LaneContext.get.flatMap(lane => lane.partition.map(lane -> _))

  /** In a lane, the lane's view of the store that it shares with the others; elsewhere the store itself. */
  private def inLane(baseId: Option[String])(open: => StateStore): StateStore =
    lane match {
      case None => waiting(open)
      case Some((lane, partition)) =>
        val shared = partition.shared(stateStoreId) {
          val base = waiting(open).asInstanceOf[RocksDBStateStoreProvider#RocksDBStateStore]
          new SharedStateStore(base, partition, encoding, baseId.isDefined)
        }
        val encoders =
          new LaneEncoders(stateStoreId, shared.db.delimiterSize, encoding, lane.lane.value.toString)
        new LaneStateStore(new LocalStateAccess(shared, lane, partition, encoders), lane, encoders, family)
    }

  /** Another task may have the store open, whose partitions wait for one that this task has open: nobody waits for a store with a
    * turn.
    */
  private def waiting[T](open: => T): T = CoreShare.waiting(open)

  private def encoding: EncodingConf = EncodingConf(storeConf, hadoopConf, columnFamilies, schemas)
}

object ElasticStateStoreProvider {
  val className: String = classOf[ElasticStateStoreProvider].getName
}
