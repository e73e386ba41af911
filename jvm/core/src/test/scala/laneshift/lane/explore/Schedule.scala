package laneshift.lane.explore

import java.util.SplittableRandom

import scala.collection.mutable.ArrayBuffer

/** What happened, a line for each step. */
final class Trace {
  val lines = ArrayBuffer.empty[String]
  def add(who: String, what: String): Unit = lines += f"${lines.size}%4d $who%-9s $what"
}

/** One schedule: a partition's batches one after the other, all of it drawn from one seed. A batch that fails is run again by
  * the next one, from the last commit.
  */
final class Schedule(seed: Long, trace: Trace = null) {
  private val random = new SplittableRandom(seed)
  private val scenario = Scenario.draw(random)
  private val ledger = new Ledger(scenario.keys)
  var steps = 0L
  var commits = 0

  def run(): this.type = {
    if (trace != null) trace.lines += s"seed $seed: $scenario"
    var routing = Array.tabulate(scenario.shards)(_ % scenario.lanes)
    var lanes = scenario.lanes
    (1 to scenario.batches).foreach { number =>
      if (trace != null) trace.lines += s"batch $number: $lanes lanes, routing ${routing.mkString(" ")}"
      ledger.beginBatch()
      val batch = new Batch(scenario, ledger, random, routing, lanes, trace)
      val before = ledger.committed.clone()
      try if (batch.run()) commits += 1
        else Violation.unless(ledger.committed.sameElements(before), "a failed batch is visible")
      finally steps += batch.steps
      // Between batches shards move without a handoff.
      lanes =
        if (random.nextInt(3) == 0) 1 + random.nextInt(scenario.maxLanes)
        else batch.inlet.stats.active.count(_ < scenario.maxLanes)
      val kept = batch.inlet.stats.routing
      routing = kept.map(lane => if (lane < lanes && random.nextInt(6) > 0) lane else random.nextInt(lanes))
    }
    this
  }
}
