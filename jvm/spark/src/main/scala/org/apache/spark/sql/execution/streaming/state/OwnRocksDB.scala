package org.apache.spark.sql.execution.streaming.state

import java.io.File

import scala.collection.{Map => AnyMap}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FileSystem

/** What Spark's wrapper of the native database is made of. */
private[state] final case class DatabaseParts(
    dfsRootDir: String,
    conf: RocksDBConf,
    localRootDir: File,
    hadoopConf: Configuration,
    loggingId: String,
    useColumnFamilies: Boolean,
    checkpointIds: Boolean,
    partitionId: Int,
    eventForwarder: Option[RocksDBEventForwarder],
    uniqueId: Option[String]
)

/** Spark's wrapper of the native database, for those of ours that take part in what happens to its files. */
private[state] abstract class OwnRocksDB(parts: DatabaseParts)
    extends RocksDB(
      parts.dfsRootDir,
      parts.conf,
      parts.localRootDir,
      parts.hadoopConf,
      parts.loggingId,
      parts.useColumnFamilies,
      parts.checkpointIds,
      parts.partitionId,
      parts.eventForwarder,
      parts.uniqueId
    ) {

  /** The file system that the store's files are in. */
  protected def seen(files: FileSystem): FileSystem = files

  /** A snapshot's files are uploaded.
    *
    * @param checkpointDir where they are on this machine
    * @param uploaded the name that each has up there
    */
  protected def saved(checkpointDir: File, uploaded: AnyMap[String, String]): Unit = ()

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
      parts.conf.fileChecksumEnabled,
      fileChecksumThreadPoolSize
    ) {
      override protected def getFileSystem(root: String, hadoop: Configuration): FileSystem =
        seen(super.getFileSystem(root, hadoop))

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
        saved(checkpointDir, fileMapping.map { case (file, to) => file -> to.immutableFile.dfsFileName })
      }
    }
}

/** Spark's provider over a database of ours. */
private[state] abstract class OwnRocksDBProvider extends RocksDBStateStoreProvider {
  protected def database(parts: DatabaseParts): RocksDB

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
  ): RocksDB = database(
    DatabaseParts(
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
  )
}
