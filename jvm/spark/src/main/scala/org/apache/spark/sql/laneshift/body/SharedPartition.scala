package org.apache.spark.sql.laneshift.body

import org.apache.spark.sql.laneshift.spec.ElasticSpec

import laneshift.ids.LaneId
import laneshift.lane.{EndScans, ScanSource}

/** What the lanes of one partition task share, as far as state stores and operators need it. Any lane's thread may call it. */
private[sql] trait SharedPartition {

  def spec: ElasticSpec

  /** How many lanes' seals make one commit of a store; 0 before these lanes are final. */
  def participants: Int

  /** The lane of each shard: as it is now or, once the input has ended, for good. Not to be changed. Where nothing moves within a
    * batch, waits until its lanes are there.
    */
  def routing: Array[Int]

  /** Called behind the last write to a store and before its commit, which Spark's task makes only when it is asked for more than
    * there is: returns when all that was put out has been taken and somebody wants more. Throws if nobody does, as the task is over
    * then.
    */
  def awaitWanted(): Unit

  /** Why the partition has stopped, or null. */
  def failure: Throwable

  /** Bytes that an operator may keep in memory of all shards together ([[LaneContext.perShard]]), out of the Spark task's. */
  def keptBytes(operatorId: Long): Long

  /** What the lanes share under this key, opened as the Spark task's own by whoever comes first. */
  def shared[T <: AnyRef](key: AnyRef)(open: => T): T

  /** What the lanes share under this key by now, if somebody has opened it. */
  def sharedNow(key: AnyRef): Option[AnyRef]

  /** Runs `body` as the Spark task itself: what it registers with the task context ends with the task. */
  def withTaskContext[T](body: => T): T

  /** The lane's next scan with the other lanes, once the input has ended (docs/handoff.md, section 6); null if they scan
    * something else.
    */
  def scanTogether(lane: LaneId, what: Any)(open: => ScanSource[StateBytes]): EndScans[StateBytes]#Part
}

/** A state row as the store has it. */
private[sql] final case class StateBytes(key: Array[Byte], value: Array[Byte]) {
  def size: Long = StateBytes.Overhead + key.length + value.length
}

private[sql] object StateBytes {

  /** Headers and references, roughly. */
  private val Overhead = 64
}
