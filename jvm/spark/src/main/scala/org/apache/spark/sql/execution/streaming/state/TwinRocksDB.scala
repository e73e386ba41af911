package org.apache.spark.sql.execution.streaming.state

import java.io.File

import scala.collection.{Map => AnyMap}
import scala.util.control.NonFatal

/** The stores that a rescale builds are its own: nobody's maintenance deletes of them what is not used any more, or looks for
  * them where they have gone from.
  */
private[sql] final class TwinStateStoreProvider extends OwnRocksDBProvider {
  override protected def database(parts: DatabaseParts): RocksDB = new TwinRocksDB(parts)

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
private[state] final class TwinRocksDB(parts: DatabaseParts) extends OwnRocksDB(parts) {

  /** Below the folder that goes with the store, and so on its disk. */
  private def kept = new File(parts.localRootDir, "kept")

  /** Without them the query fetches its files. */
  override protected def saved(checkpointDir: File, uploaded: AnyMap[String, String]): Unit =
    try KeptTables.keep(kept, checkpointDir, uploaded)
    catch { case NonFatal(e) => logWarning(s"Tables of ${parts.loggingId} are not kept.", e) }

  override def close(): Unit = {
    KeptTables.dropAll(kept)
    super.close()
  }
}
