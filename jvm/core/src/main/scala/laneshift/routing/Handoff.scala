package laneshift.routing

import laneshift.ids.{LaneId, ShardId}

/** Why a shard moves. The names are those that Python, the UI and the logs show. */
sealed abstract class MoveReason(val name: String)

object MoveReason {

  /** The planner evens out the lanes' loads. */
  case object Balance extends MoveReason("balance")

  /** Lanes were added or are being retired. */
  case object Scale extends MoveReason("scale")

  /** The executor that ran the lane is lost. */
  case object HostLost extends MoveReason("host-lost")

  /** Somebody asked for this move. */
  case object User extends MoveReason("user")

  /** The fault mode `spark.sql.laneshift.motion`. */
  case object Motion extends MoveReason("motion")
}

/** One shard that is wanted on another lane while the partition runs (docs/handoff.md).
  *
  * Times, in nanoseconds of one clock: from `begun` until the source lane has `noticed` at a row boundary (drain) the shard's
  * rows flow on to the source lane; then they wait until its outputs are `flushed` (flush) and the routing is `settled`
  * (switch). Each field is written under the inlet's lock.
  */
final class Handoff(
    val id: Long,
    val shard: ShardId,
    val from: LaneId,
    val to: LaneId,
    val reason: MoveReason,
    val begunNs: Long
) {
  var noticedNs: Long = 0L
  var flushedNs: Long = 0L
  var settledNs: Long = 0L

  /** Rows that went along: those that the source lane had taken and not worked on, and those in its queue. */
  var movedRows: Long = 0L

  def drainNs: Long = noticedNs - begunNs
  def flushNs: Long = flushedNs - noticedNs
  def switchNs: Long = settledNs - flushedNs

  /** How long rows of the shard waited for nothing but the handoff. */
  def pauseNs: Long = settledNs - noticedNs

  override def toString: String =
    s"handoff $id of shard ${shard.value}: lane ${from.value} -> ${to.value} (${reason.name})"
}
