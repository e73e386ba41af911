package laneshift.routing

import laneshift.ids.{LaneId, ShardId}

/** Why a shard moves. The names are those that Python, the UI and the logs show. */
sealed abstract class MoveReason(val name: String)

object MoveReason {

  /** The planner evens out the lanes' loads. */
  case object Balance extends MoveReason("balance")

  /** Lanes were added or are being retired. */
  case object Scale extends MoveReason("scale")

  /** Somebody asked for this move. */
  case object User extends MoveReason("user")

  /** The fault mode `spark.sql.laneshift.motion`. */
  case object Motion extends MoveReason("motion")
}

/** One shard on its way from one lane to another while the partition runs (docs/handoff.md).
  *
  * Times, in nanoseconds of one clock, split the pause of the shard's rows: from `begun` until its queued rows are `held`
  * (hold), `noticed` by the source lane at a row boundary (drain), `flushed` are its caches and outputs (flush), `settled`
  * is the routing (switch).
  * Each field is written under the inlet's lock or by the source lane before its acknowledgement takes that lock.
  */
final class Handoff(
    val id: Long,
    val shard: ShardId,
    val from: LaneId,
    val to: LaneId,
    val reason: MoveReason,
    val begunNs: Long
) {
  var heldNs: Long = 0L
  var noticedNs: Long = 0L
  var flushedNs: Long = 0L
  var settledNs: Long = 0L

  /** Rows that waited for this handoff: taken back from the source lane's queue or newly arrived. */
  var heldRows: Long = 0L

  def holdNs: Long = heldNs - begunNs
  def drainNs: Long = noticedNs - heldNs
  def flushNs: Long = flushedNs - noticedNs
  def switchNs: Long = settledNs - flushedNs
  def pauseNs: Long = settledNs - begunNs

  override def toString: String =
    s"handoff $id of shard ${shard.value}: lane ${from.value} -> ${to.value} (${reason.name})"
}
