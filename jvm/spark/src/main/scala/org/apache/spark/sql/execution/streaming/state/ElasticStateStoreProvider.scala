package org.apache.spark.sql.execution.streaming.state

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.laneshift.body.{LaneContext, SharedPartition}
import org.apache.spark.sql.types.StructType

/** What is needed to make the encoders of one column family. */
private[state] final case class FamilySchema(
    key: StructType,
    value: StructType,
    keySpec: KeyStateEncoderSpec,
    multipleValues: Boolean
)

/** Spark's RocksDB provider, whose stores the lanes of one elastic partition can share. Files, changelog, snapshots,
  * checkpoint ids, maintenance and memory accounting are Spark's; outside a lane it is Spark's provider.
  *
  * In Spark's own package because encoders, run ids and the delimiter's size are private to it (design fact 9).
  */
class ElasticStateStoreProvider extends RocksDBStateStoreProvider {
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
    this.family = FamilySchema(keySchema, valueSchema, keyStateEncoderSpec, useMultipleValuesPerKey)
    this.storeConf = storeConf
    this.hadoopConf = hadoopConf
    this.columnFamilies = useColumnFamilies
    this.schemas = stateSchemaProvider
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

  override def getStore(
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore = inLane(uniqueId)(super.getStore(version, uniqueId, forceSnapshotOnCommit, loadEmpty))

  /** In a lane this opens for writing at once: Spark may load the database anew when a store goes over from reading to
    * writing (it does for an empty store with checkpoint ids), while other lanes still read from it.
    */
  override def getReadStore(version: Long, uniqueId: Option[String]): StateStore =
    if (lane.isDefined)
      inLane(uniqueId)(super.getStore(version, uniqueId, forceSnapshotOnCommit = false, loadEmpty = false))
    else super.getReadStore(version, uniqueId)

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

  /** The lane that this thread runs, unless it runs Spark's own path, and its partition. */
  private def lane: Option[(LaneContext, SharedPartition)] =
    LaneContext.get.flatMap(lane => lane.partition.map(lane -> _))

  /** In a lane, the lane's view of the store that it shares with the others; elsewhere the store itself. */
  private def inLane(baseId: Option[String])(open: => StateStore): StateStore =
    lane match {
      case None => open
      case Some((lane, partition)) =>
        val shared = partition.shared(stateStoreId) {
          val base = open.asInstanceOf[RocksDBStateStoreProvider#RocksDBStateStore]
          new SharedStateStore(base, partition, encoding, baseId.isDefined)
        }
        val encoders =
          new LaneEncoders(stateStoreId, shared.db.delimiterSize, encoding, lane.lane.value.toString)
        new LaneStateStore(new LocalStateAccess(shared, lane, partition, encoders), lane, encoders, family)
    }

  private def encoding: EncodingConf = EncodingConf(storeConf, hadoopConf, columnFamilies, schemas)
}

object ElasticStateStoreProvider {
  val className: String = classOf[ElasticStateStoreProvider].getName
}
