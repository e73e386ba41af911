package org.apache.spark.sql.execution.streaming.state

import scala.util.control.NonFatal

import org.apache.hadoop.fs.FileSystem

import laneshift.lane.CoreShare

/** Spark's wrapper of the native database, which keeps a record of a commit's writes if the task says so: where changelogs
  * are off nothing else tells them. A record that fails costs the rescale, never the query. As the wrapper itself it is one
  * thread's at a time. While a store waits for its files, other partitions of its task work.
  */
private[state] final class RecordingRocksDB(parts: DatabaseParts) extends OwnRocksDB(parts) {
  import RecordedWrite._

  private var record: WriteRecord = _

  /** Finds what a rescale has left on this executor. */
  override protected def seen(files: FileSystem): FileSystem = KeptTables.finding(files)

  private def recording(body: => Unit): Unit =
    try body
    catch {
      case NonFatal(e) =>
        logWarning(
          s"Writes of ${parts.loggingId} are not recorded: the rescale that wants them will fail.",
          e
        )
        dropRecord()
    }

  private def dropRecord(): Unit = {
    val dropped = record
    record = null
    if (dropped != null)
      try dropped.drop()
      catch { case NonFatal(_) => () }
  }

  private def note(kind: Byte, family: String, key: Array[Byte], value: => Array[Byte]): Unit =
    if (record != null) recording(record.add(kind, family, key, value))

  override def load(
      version: Long,
      stateStoreCkptId: Option[String],
      readOnly: Boolean,
      loadEmpty: Boolean
  ): RocksDB = {
    // Replaying a changelog writes, too.
    dropRecord()
    CoreShare.waiting {
      // Of another version Spark loads all, whatever is open.
      if (loadedVersion != version) {
        loadedVersion = -1L
        NativeDatabase.close(this)
      }
      super.load(version, stateStoreCkptId, readOnly, loadEmpty)
    }
    if (!readOnly) recording { record = WriteRecord.wanted(parts.dfsRootDir, parts.hadoopConf).orNull }
    this
  }

  override def commit(forceSnapshot: Boolean): (Long, StateStoreCheckpointInfo) = {
    val committed = CoreShare.waiting(super.commit(forceSnapshot))
    if (record != null) recording {
      val finished = record
      record = null
      finished.publish(committed._1, committed._2.stateStoreCkptId)
    }
    committed
  }

  override def rollback(): Unit = {
    dropRecord()
    super.rollback()
  }

  override def close(): Unit = {
    dropRecord()
    super.close()
  }

  override def put(
      key: Array[Byte],
      value: Array[Byte],
      cfName: String,
      includesPrefix: Boolean,
      deriveCfName: Boolean,
      includesChecksum: Boolean
  ): Unit = {
    super.put(key, value, cfName, includesPrefix, deriveCfName, includesChecksum)
    note(Put, cfName, key, value)
  }

  override def remove(
      key: Array[Byte],
      cfName: String,
      includesPrefix: Boolean,
      deriveCfName: Boolean,
      includesChecksum: Boolean
  ): Unit = {
    super.remove(key, cfName, includesPrefix, deriveCfName, includesChecksum)
    note(Remove, cfName, key, null)
  }

  override def merge(
      key: Array[Byte],
      value: Array[Byte],
      cfName: String,
      includesPrefix: Boolean,
      deriveCfName: Boolean,
      includesChecksum: Boolean
  ): Unit = {
    super.merge(key, value, cfName, includesPrefix, deriveCfName, includesChecksum)
    note(Merge, cfName, key, value)
  }

  /** One value put, the others merged: the same bytes. */
  override def putList(
      key: Array[Byte],
      values: List[Array[Byte]],
      cfName: String,
      includesPrefix: Boolean,
      includesChecksum: Boolean,
      deriveCfName: Boolean
  ): Unit = {
    super.putList(key, values, cfName, includesPrefix, includesChecksum, deriveCfName)
    values.headOption.foreach(note(Put, cfName, key, _))
    values.drop(1).foreach(note(Merge, cfName, key, _))
  }

  override def mergeList(
      key: Array[Byte],
      values: List[Array[Byte]],
      cfName: String,
      includesPrefix: Boolean,
      includesChecksum: Boolean,
      deriveCfName: Boolean
  ): Unit = {
    super.mergeList(key, values, cfName, includesPrefix, includesChecksum, deriveCfName)
    values.foreach(note(Merge, cfName, key, _))
  }

  override def deleteRange(
      beginKey: Array[Byte],
      endKey: Array[Byte],
      cfName: String,
      includesPrefix: Boolean,
      includesChecksum: Boolean
  ): Unit = {
    super.deleteRange(beginKey, endKey, cfName, includesPrefix, includesChecksum)
    note(RemoveRange, cfName, beginKey, endKey)
  }
}
