package laneshift.lane

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import laneshift.ids.{LaneId, ShardId}
import laneshift.routing.{Handoff, MoveReason}

/** Any order of rows, moves, cancellations, lane changes and lanes' steps: every row once, in order, nothing left over. */
class InletPropertiesSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import InletPropertiesSuite._

  private val step: Gen[Step] = Gen.frequency(
    8 -> Gen.zip(Gen.choose(0, 7), Gen.choose(1, 9)).map { case (key, rows) => Offer(key, rows) },
    4 -> Gen.zip(Gen.choose(0, 4), Gen.choose(0, 3)).map { case (shard, lane) => Move(shard, lane) },
    1 -> Gen.choose(0, 4).map(Cancel.apply),
    1 -> Gen.choose(1, 4).map(SetLanes.apply),
    10 -> Gen.zip(Gen.choose(0, 3), Gen.choose(1, 4)).map { case (lane, steps) => Work(lane, steps) }
  )

  private def run(steps: List[Step], blockRows: Int): InletDriver = {
    val d = new InletDriver(shards = 5, keys = 8, blockRows = blockRows, warm = false)
    val moves = scala.collection.mutable.Map.empty[Int, Handoff]
    steps.foreach {
      case Offer(key, rows) => d.offer(key, rows)
      case Move(shard, lane) =>
        d.inlet.move(ShardId(shard), LaneId(lane), MoveReason.User).foreach(moves(shard) = _)
      case Cancel(shard) => moves.get(shard).foreach(d.inlet.cancel)
      case SetLanes(n) => assert(d.inlet.setLanes(n) == Right(()))
      case Work(lane, times) => (1 to times).foreach(_ => d.lane(lane).step())
    }
    d
  }

  test("every row is processed once and in order, whatever happens in whichever order") {
    forAll(Gen.listOf(step), Gen.choose(1, 6), minSuccessful(1500), sizeRange(120)) { (steps, blockRows) =>
      run(steps, blockRows).finish()
    }
  }

  test("at any moment counts, bytes and destinations agree with each other") {
    forAll(Gen.listOf(step), Gen.choose(1, 6), minSuccessful(500), sizeRange(80)) { (steps, blockRows) =>
      val d = run(steps, blockRows)
      val stats = d.inlet.stats
      assert(stats.queueBytes.sum + stats.heldBytes == d.inlet.bufferedBytes)
      assert(stats.queueRows.map(_ * 10).toSeq == stats.queueBytes.toSeq)
      assert(stats.offered.sum == d.offered.sum)
      assert(stats.laneRows.sum + stats.queueRows.sum + stats.heldBytes / 10 == d.offered.sum)
      assert(stats.inFlight == stats.routing.indices.count(s => stats.routing(s) != stats.destinations(s)))
      assert(stats.routing.forall(_ < stats.startedLanes))
      d.finish()
      // Everything that was retired has ended on a lane that is active.
      assert(d.inlet.stats.routing.forall(_ < d.inlet.stats.activeLanes))
    }
  }
}

object InletPropertiesSuite {
  sealed trait Step
  final case class Offer(key: Int, rows: Int) extends Step
  final case class Move(shard: Int, lane: Int) extends Step
  final case class Cancel(shard: Int) extends Step
  final case class SetLanes(count: Int) extends Step
  final case class Work(lane: Int, steps: Int) extends Step
}
