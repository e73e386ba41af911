package org.apache.spark.sql.execution.streaming.state

import java.io.File

import org.apache.hadoop.conf.Configuration

import laneshift.lane.CoreShare

/** Spark's own, of a thread that may work in turns with those of other partitions of its task: while a store waits for its files,
  * others have the turn.
  */
private[state] final class LendingRocksDB(
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

  override def load(
      version: Long,
      stateStoreCkptId: Option[String],
      readOnly: Boolean,
      loadEmpty: Boolean
  ): RocksDB =
    CoreShare.waiting(super.load(version, stateStoreCkptId, readOnly, loadEmpty))

  override def commit(forceSnapshot: Boolean): (Long, StateStoreCheckpointInfo) =
    CoreShare.waiting(super.commit(forceSnapshot))
}
