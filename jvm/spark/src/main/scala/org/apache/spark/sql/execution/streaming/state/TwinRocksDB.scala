package org.apache.spark.sql.execution.streaming.state

import java.io.File

import scala.collection.{Map => AnyMap}
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration

/** The stores that a rescale builds are its own: nobody's maintenance deletes of them what is not used any more, or looks for
  * them where they have gone from.
  */
private[sql] final class TwinStateStoreProvider extends RocksDBStateStoreProvider {
  override protected def createRocksDB(
      dfsRootDir: String,
      conf: RocksDBConf,
      localRootDir: File,
      hadoopConf: Configuration,
      loggingId: String,
      useColumnFamilies: Boolean,
      enableStateStoreCheckpointIds: Boolean,
      partitionId: Int,
      eventForwarder: Option[RocksDBEventForwarder],
      uniqueId: Option[String]
  ): RocksDB = new TwinRocksDB(
    dfsRootDir,
    conf,
    localRootDir,
    hadoopConf,
    loggingId,
    useColumnFamilies,
    enableStateStoreCheckpointIds,
    partitionId,
    eventForwarder,
    uniqueId
  )

  override def getStore(
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore =
    super.getStore(
      version,
      uniqueId,
      forceSnapshotOnCommit,
      loadEmpty || TwinStateStoreProvider.startsEmpty.get
    )

  override def doMaintenance(): Unit = ()
  override def doSnapshotMaintenance(): Unit = ()
  override def doCleanupMaintenance(): Unit = ()
}

private[state] object TwinStateStoreProvider {

  /** Whether stores that this thread opens are new: Spark cannot be told when it keeps them open. */
  val startsEmpty: ThreadLocal[Boolean] = ThreadLocal.withInitial(() => false)
}

/** Spark's wrapper of the native database for a rescale's stores, which keeps the tables of what it has committed. */
private[state] final class TwinRocksDB(
    dfsRootDir: String,
    conf: RocksDBConf,
    localRootDir: File,
    hadoopConf: Configuration,
    loggingId: String,
    useColumnFamilies: Boolean,
    enableStateStoreCheckpointIds: Boolean,
    partitionId: Int,
    eventForwarder: Option[RocksDBEventForwarder],
    uniqueId: Option[String]
) extends RocksDB(
      dfsRootDir,
      conf,
      localRootDir,
      hadoopConf,
      loggingId,
      useColumnFamilies,
      enableStateStoreCheckpointIds,
      partitionId,
      eventForwarder,
      uniqueId
    ) {

  /** Below the folder that goes with the store, and so on its disk. */
  private def kept = new File(localRootDir, "kept")

  override protected def createFileManager(
      dfsRootDir: String,
      localTempDir: File,
      hadoopConf: Configuration,
      codecName: String,
      loggingId: String,
      storeConf: StateStoreConf
  ): RocksDBFileManager =
    new RocksDBFileManager(
      dfsRootDir,
      localTempDir,
      hadoopConf,
      codecName,
      loggingId,
      storeConf,
      conf.fileChecksumEnabled,
      fileChecksumThreadPoolSize
    ) {
      override def saveCheckpointToDfs(
          checkpointDir: File,
          version: Long,
          numKeys: Long,
          numInternalKeys: Long,
          fileMapping: AnyMap[String, RocksDBSnapshotFile],
          columnFamilyMapping: Option[AnyMap[String, ColumnFamilyInfo]],
          maxColumnFamilyId: Option[Short],
          checkpointUniqueId: Option[String],
          verifyNonEmptyFilesInZip: Boolean
      ): Unit = {
        super.saveCheckpointToDfs(
          checkpointDir,
          version,
          numKeys,
          numInternalKeys,
          fileMapping,
          columnFamilyMapping,
          maxColumnFamilyId,
          checkpointUniqueId,
          verifyNonEmptyFilesInZip
        )
        // Without them the query fetches its files.
        try
          KeptTables.keep(
            kept,
            checkpointDir,
            fileMapping.map { case (file, to) => file -> to.immutableFile.dfsFileName }
          )
        catch { case NonFatal(e) => logWarning(s"Tables of $loggingId are not kept.", e) }
      }
    }

  override def close(): Unit = {
    KeptTables.dropAll(kept)
    super.close()
  }
}
