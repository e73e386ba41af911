package laneshift.lane

/** A consistent view of an inlet; arrays are by shard (`routing`, `destinations`, `offered`) or by lane. `destinations` is
  * the routing once everything in flight has settled, `active` the lanes that shards may come to, in ascending order. `busyNs` counts from a lane's first row, without its waits for rows
  * and for room behind it; `blockedNs` is how long the receiver has waited for room.
  */
final case class InletStats(
    routing: Array[Int],
    destinations: Array[Int],
    active: Array[Int],
    startedLanes: Int,
    inFlight: Int,
    offered: Array[Long],
    laneRows: Array[Long],
    queueRows: Array[Long],
    queueBytes: Array[Long],
    busyNs: Array[Long],
    blockedNs: Long
) {
  def activeLanes: Int = active.length
}
