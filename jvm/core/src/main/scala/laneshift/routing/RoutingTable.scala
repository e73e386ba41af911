package laneshift.routing

import laneshift.ids.{Epoch, LaneId, ShardId}

/** Which lane owns each shard of one elastic partition, and which are wanted elsewhere (docs/handoff.md, section 2).
  *
  * A shard has an owner, and at most one handoff away from it.
  * Pure data, no locks: whoever owns the table guards it. Every settled handoff makes a new epoch.
  */
final class RoutingTable(initial: Array[Int]) {
  require(initial.nonEmpty, "a routing table needs at least one shard")

  private val owners = initial.clone()
  private val moving = new Array[Handoff](initial.length)
  private var inFlightCount = 0
  private var current = Epoch.first

  def shards: Int = owners.length
  def epoch: Epoch = current
  def inFlight: Int = inFlightCount

  def owner(shard: Int): Int = owners(shard)

  /** The handoff away from this shard's owner, or null. */
  def handoffOf(shard: Int): Handoff = moving(shard)

  /** Where the shard will be once everything in flight has settled. */
  def destination(shard: Int): Int = if (moving(shard) == null) owners(shard) else moving(shard).to.value

  def begin(id: Long, shard: ShardId, to: LaneId, reason: MoveReason, nowNs: Long): Handoff = {
    val s = shard.value
    require(moving(s) == null, s"shard $s is already on its way: ${moving(s)}")
    require(owners(s) != to.value, s"shard $s is on lane ${to.value} already")
    val handoff = new Handoff(id, shard, LaneId(owners(s)), to, reason, nowNs)
    moving(s) = handoff
    inFlightCount += 1
    handoff
  }

  def settle(handoff: Handoff): Unit = {
    require(moving(handoff.shard.value) eq handoff, s"$handoff is not in flight")
    moving(handoff.shard.value) = null
    inFlightCount -= 1
    owners(handoff.shard.value) = handoff.to.value
    current = current.next
  }

  /** Gives every shard its owner anew. Before the first row only. */
  def reset(routing: Array[Int]): Unit = {
    require(inFlightCount == 0, "shards are on their way")
    require(routing.length == owners.length, s"${routing.length} of ${owners.length} shards")
    routing.copyToArray(owners)
    current = current.next
  }

  def toArray: Array[Int] = owners.clone()
}

object RoutingTable {

  /** Shards dealt to lanes in turn: where a partition starts when nothing is known about loads. */
  def roundRobin(shards: Int, lanes: Int): Array[Int] = Array.tabulate(shards)(_ % lanes)
}
