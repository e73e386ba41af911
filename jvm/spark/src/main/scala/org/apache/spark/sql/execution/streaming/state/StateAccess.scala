package org.apache.spark.sql.execution.streaming.state

import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.laneshift.body.StateBytes

import laneshift.lane.ScanSource

/** One lane's way to one state store, in encoded keys and values: straight into the database, or to the executor that has it
  * open. Only the lane's thread and those that work for it use it, one at a time.
  */
private[state] trait StateAccess {
  def id: StateStoreId
  def version: Long

  def createFamily(name: String, schema: FamilySchema, isInternal: Boolean): Unit
  def removeFamily(name: String): Boolean
  def familyNames: Set[String]

  /** The value of a key of this lane; null if it has none. */
  def get(key: Array[Byte], family: String): Array[Byte]
  def keyExists(key: Array[Byte], family: String): Boolean

  /** The values of several keys, in their order; null where there is none. */
  def multiGet(keys: Array[Array[Byte]], family: String): Iterator[Array[Byte]]

  def put(key: Array[Byte], value: Array[Byte], family: String): Unit
  def remove(key: Array[Byte], family: String): Unit
  def putList(key: Array[Byte], values: List[Array[Byte]], family: String): Unit
  def merge(key: Array[Byte], value: Array[Byte], family: String): Unit
  def mergeList(key: Array[Byte], values: List[Array[Byte]], family: String): Unit

  /** The rows whose keys begin with `prefix`, which has the whole key that was shuffled by: all are this lane's. */
  def prefixScan(prefix: Array[Byte], family: String): LaneScan

  /** A scan by this lane alone. */
  def scan(what: StoreScan): LaneScan

  /** A scan together with the other lanes, once nothing moves any more and if there are others. */
  def scanTogether(what: StoreScan): Option[LaneScan]

  /** Everything that this lane has written is where whoever may look for it finds it. */
  def settle(): Unit

  /** The lane has written all it will write. */
  def seal(): Unit

  /** Makes the commit upload a snapshot. */
  def forceSnapshot(): Unit

  /** What the lane reports of the store, if it speaks for it. */
  def metrics: StateStoreMetrics

  def checkpointInfo: StateStoreCheckpointInfo
}

/** A scan of a store: of one column family, between two encoded keys. */
private[state] final case class StoreScan(
    store: StateStoreId,
    family: String,
    start: Option[ByteBuffer],
    end: Option[ByteBuffer]
)

/** The rows of a scan for one lane: those of `source` whose key it `owns`. */
private[state] final class LaneScan(val source: ScanSource[StateBytes], val owns: UnsafeRow => Boolean)

private[state] object LaneScan {

  /** Of rows that are all this lane's. */
  def ofOwn(source: ScanSource[StateBytes]): LaneScan = new LaneScan(source, _ => true)
}
