package org.apache.spark.sql.execution.streaming.state

import java.util.{HashMap, HashSet}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.laneshift.body.SharedPartition

import laneshift.ids.LaneId
import laneshift.lane.Seals

/** One open state store of one partition task and what its lanes must do once: commit. It is opened as the Spark
  * task's own, so Spark aborts it with the task if it was not committed; by then every lane has ended.
  *
  * `lock` guards what is not thread-safe below: writes (changelog, key counters) and iterators. Point reads take no lock:
  * the native database is thread-safe, and a lane reads its own keys only (design facts 9 and 13).
  */
private[sql] final class SharedStateStore private[state] (
    private[state] val base: RocksDBStateStoreProvider#RocksDBStateStore,
    partition: SharedPartition,
    private[state] val encoding: EncodingConf,
    private[state] val hasBaseId: Boolean
) extends Logging {
  private[state] val db: RocksDB = base.dbInstance()
  private[state] val lock = new Object
  private val seals = new Seals(() => partition.participants, () => partition.failure)
  private val writers = new HashMap[LaneId, LaneWrites]
  private val removed = new HashSet[String]
  private var committer: Option[LaneId] = None

  /** One for all views that a lane has of this store: each sees what the others have written. */
  def writes(lane: LaneId): LaneWrites =
    lock.synchronized(writers.computeIfAbsent(lane, _ => new LaneWrites(db, lock)))

  private[state] def createFamily(
      name: String,
      schema: FamilySchema,
      isInternal: Boolean
  ): Unit = lock.synchronized(
    base.createColFamilyIfAbsent(
      name,
      schema.key,
      schema.value,
      schema.keySpec,
      schema.multipleValues,
      isInternal
    )
  )

  /** What there was before the task is removed, once: each lane's function begins by that, and those that come later mean no more. */
  def removeFamily(name: String): Boolean =
    lock.synchronized(removed.add(name) && base.removeColFamilyIfExists(name))

  private[state] def prefixScan(
      prefix: Array[Byte],
      family: String,
      few: Int = NativeScan.ForOne
  ): NativeScan = new NativeScan(lock, db.prefixScan(prefix, family), few)

  /** @param few rows at a time
    * @param closed hears of its end
    */
  private[state] def scan(what: StoreScan, few: Int, closed: NativeScan => Unit = _ => ()): NativeScan = {
    val (start, end) = (what.start.map(_.array), what.end.map(_.array))
    new NativeScan(
      lock,
      if (start.isDefined || end.isDefined) db.rangeScan(start, end, what.family)
      else if (encoding.columnFamilies) db.iterator(what.family)
      else db.iterator(),
      few,
      closed
    )
  }

  /** Makes the commit upload a snapshot, as Spark's coordinator wants when uploads lag behind. Spark keeps the wish in the
    * store, where only its own provider may set it; without the setter the wish is left to maintenance, as without a lag.
    */
  def forceSnapshot(): Unit = lock.synchronized {
    base.getClass.getMethods.find(_.getName.endsWith("forceSnapshotOnCommit_$eq")) match {
      case Some(setter) => setter.invoke(base, java.lang.Boolean.TRUE)
      case None =>
        logWarning(s"The snapshot that is wanted of state store ${base.id} is left to maintenance.")
    }
  }

  /** A lane has written all it will write. The last one's seal is the commit, on its thread or that of the frames from its host. */
  def seal(lane: LaneId): Unit = if (lock.synchronized(seals.seal(lane))) {
    partition.awaitWanted()
    lock.synchronized {
      committer = Some(lane)
      partition.withTaskContext(base.commit())
    }
  }

  /** Throws if some lane has ended without its seal: what the others have written would be lost. */
  def requireCommitted(): Unit = lock.synchronized {
    if (committer.isEmpty)
      throw new IllegalStateException(
        s"state store ${base.id} was not committed: ${seals.count} of ${partition.participants} lanes have sealed it"
      )
  }

  /** True for the lane whose seal was the commit: it alone speaks for the store. */
  def isCommitter(lane: LaneId): Boolean = lock.synchronized(committer.contains(lane))

  def sealedInfo: StateStoreCheckpointInfo = SharedStateStore.sealedInfo(base.id, base.version, hasBaseId)
}

private[sql] object SharedStateStore {

  /** Stands where a lane that did not commit would report a checkpoint id; never leaves the task. */
  val SealedMark = "laneshift-sealed"

  /** What a lane reports that has only sealed the store. It has a base if the store was opened by a checkpoint id. */
  private[state] def sealedInfo(
      id: StateStoreId,
      version: Long,
      hasBaseId: Boolean
  ): StateStoreCheckpointInfo =
    StateStoreCheckpointInfo(
      id.partitionId,
      version + 1,
      Some(SealedMark),
      Option.when(hasBaseId)(SealedMark)
    )
}

/** Spark passes a read store on to the write store of the same thread; a lane that starts again must not find its old one. */
private[sql] object StateStoreTracking {
  def clear(): Unit = StateStoreThreadLocalTracker.clearStore()
}
