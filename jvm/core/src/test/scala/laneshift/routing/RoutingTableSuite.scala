package laneshift.routing

import laneshift.ids.{Epoch, LaneId, ShardId}
import laneshift.testing.LimitedSuite

class RoutingTableSuite extends LimitedSuite {

  private def begin(table: RoutingTable, shard: Int, to: Int): Handoff =
    table.begin(1L, ShardId(shard), LaneId(to), MoveReason.User, nowNs = 5L)

  test("shards are dealt to lanes in turn") {
    assert(RoutingTable.roundRobin(5, 2).toSeq == Seq(0, 1, 0, 1, 0))
  }

  test("a shard on its way keeps its owner until the handoff settles, and has a destination before") {
    val table = new RoutingTable(Array(0, 1))
    val handoff = begin(table, shard = 0, to = 1)
    assert((table.owner(0), table.destination(0), table.inFlight) == ((0, 1, 1)))
    assert(table.handoffOf(0) eq handoff)
    assert(table.epoch == Epoch.first)
    table.settle(handoff)
    assert((table.owner(0), table.destination(0), table.inFlight) == ((1, 1, 0)))
    assert(table.handoffOf(0) == null)
    assert(table.epoch == Epoch.first.next)
  }

  test("one handoff per shard, to another lane, settled once") {
    val table = new RoutingTable(Array(0, 1))
    assert(intercept[IllegalArgumentException](begin(table, 0, 0)).getMessage.contains("on lane 0 already"))
    val handoff = begin(table, 0, 1)
    assert(intercept[IllegalArgumentException](begin(table, 0, 2)).getMessage.contains("already on its way"))
    table.settle(handoff)
    assert(intercept[IllegalArgumentException](table.settle(handoff)).getMessage.contains("not in flight"))
  }

  test("the table shares no array with anybody") {
    val initial = Array(0, 1)
    val table = new RoutingTable(initial)
    initial(0) = 9
    table.toArray(1) = 9
    assert(table.toArray.toSeq == Seq(0, 1))
  }

  test("a table without shards is refused") {
    intercept[IllegalArgumentException](new RoutingTable(Array.empty[Int]))
  }

  test("the parts of a pause add up") {
    val handoff = new Handoff(7L, ShardId(3), LaneId(0), LaneId(2), MoveReason.Balance, begunNs = 10L)
    handoff.noticedNs = 15L
    handoff.flushedNs = 40L
    handoff.settledNs = 42L
    assert((handoff.drainNs, handoff.flushNs, handoff.switchNs) == ((5L, 25L, 2L)))
    assert(handoff.pauseNs == 27L)
    assert(handoff.toString == "handoff 7 of shard 3: lane 0 -> 2 (balance)")
  }
}
