package laneshift.lane

import scala.util.control.NonFatal

import laneshift.testing.{Deep, DeepSuite, LimitedSuite, Seeds}

/** Threads, tiny bounds and constant trouble. */
class InletStressSuite extends LimitedSuite with DeepSuite {
  override def room: Deep = Deep.Motion
  private val seed = Seeds.first

  private def stress(plan: StressPlan): StressResult = {
    info(s"seed ${plan.seed}")
    try new InletStress(plan).run()
    catch {
      case e if NonFatal(e) || e.isInstanceOf[AssertionError] =>
        throw new AssertionError(s"${e.getMessage} (repeat with LANESHIFT_SEED=$seed: $plan)", e)
    }
  }

  test("many moves and lane changes with tiny bounds: every row once and in order") {
    val result = stress(StressPlan(seed))
    info(result.toString)
    assert(result.failure.isEmpty && result.settled > 0 && result.laneChanges > 0)
  }

  test("one row per block, bounds of one row") {
    val plan =
      StressPlan(seed + 1, rows = 15000, blockRows = 1, queueBytes = 1, outletBytes = 1)
    assert(stress(plan).settled > 0)
  }

  test("few keys, one hot shard, large blocks") {
    val plan =
      StressPlan(seed + 2, keys = 3, shards = 3, blockRows = 64, queueBytes = 10000)
    assert(stress(plan).settled > 0)
  }

  test("a short input ends in the middle of everything") {
    (0 until 150).foreach(i => new InletStress(StressPlan(seed + 100 + i, rows = i)).run())
  }

  test("a lane that fails in the middle stops everybody, with its own error") {
    (0 until 40).foreach { i =>
      val result = new InletStress(StressPlan(seed + 300 + i, rows = 3000, failAt = 50 * i)).run()
      assert(result.failure.exists(_.isInstanceOf[InletStress.Planned]), result.failure)
    }
  }

  test("a receiver that fails in the middle stops everybody, with its own error") {
    (0 until 40).foreach { i =>
      val result = new InletStress(StressPlan(seed + 400 + i, rows = 3000, receiverFailsAt = 50 * i)).run()
      assert(result.failure.exists(_.isInstanceOf[InletStress.Planned]), result.failure)
    }
  }
}
