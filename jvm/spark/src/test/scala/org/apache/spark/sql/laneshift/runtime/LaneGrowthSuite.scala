package org.apache.spark.sql.laneshift.runtime

import laneshift.lane.LaneBudget
import laneshift.testing.LimitedSuite

/** Lanes of partitions whose batch goes on and on, turn by turn: half a second each. */
class LaneGrowthSuite extends LimitedSuite {

  private final class Machine(count: Int) {
    val budget = new LaneBudget(256)
    var load = 0.5
    val cores = new Cores(count, budget, () => load)
    var nowNs = 0L
    def turn(): Unit = {
      nowNs += 500000000L
      cores.look()
    }
  }

  private abstract class Growing(machine: Machine) {
    var lanes = 1
    machine.cores.taskStarted(LoneTask())

    protected def change(wanted: Int): Int = {
      if (wanted > lanes) lanes += machine.budget.take(wanted - lanes)
      else {
        machine.budget.give(lanes - wanted)
        lanes = wanted
      }
      lanes
    }
  }

  /** A partition with a task. A lane takes 1,000 rows/s; `gain` says what so many lanes make of it. */
  private final class Partition(machine: Machine, gain: Int => Double = _.toDouble) extends Growing(machine) {
    private val growth = new LaneGrowth(machine.cores, maxLanes = 64, LaneGrowth.Pace.Rows)
    private var total = 0.0

    def turn(rows: Double): Int = {
      val took = math.min(rows, 1000 * gain(lanes))
      val busy = math.min(lanes.toDouble, lanes * rows / (1000 * gain(lanes)))
      total += took / 2
      growth.saw(machine.nowNs, total.toLong)
      val wanted = growth.turn(lanes, busy, worth = true)
      change(wanted)
    }

    /** Between two batches, in which more rows come in than are seen. */
    def rest(): Unit = {
      total += 5000
      growth.rest()
    }
  }

  private def turns(machine: Machine, count: Int)(each: => Unit): Unit = (0 until count).foreach { _ =>
    machine.turn()
    each
  }

  test(
    "a partition that cannot keep up gets the idle cores at once, and gives back what it does not need"
  ) {
    val machine = new Machine(8)
    val (hot, cold) = (new Partition(machine), new Partition(machine))
    turns(machine, 4) { hot.turn(1500); cold.turn(100) }
    assert((hot.lanes, cold.lanes) == ((7, 1)), "all but the two tasks' own")
    turns(machine, 40) { hot.turn(1500); cold.turn(100) }
    assert(hot.lanes == 3, "1.5 lanes of work are comfortable on three")
    turns(machine, 40) { hot.turn(1500); cold.turn(100) }
    assert(hot.lanes == 3, "and stay so")
    turns(machine, 80) { hot.turn(100); cold.turn(100) }
    assert(hot.lanes == 1)
  }

  /** Batches of a second, and a minute between them. */
  private def batches(machine: Machine, count: Int)(partition: Partition, rows: Double): Unit =
    (0 until count).foreach { _ =>
      turns(machine, 3)(partition.turn(rows))
      partition.rest()
      machine.nowNs += 60000000000L
    }

  test("short batches are one that goes on: lanes are given, judged and given back over many of them") {
    val machine = new Machine(8)
    val hot = new Partition(machine)
    batches(machine, 3)(hot, rows = 10000)
    assert(hot.lanes == 8)
    batches(machine, 40)(hot, rows = 100)
    assert(hot.lanes == 1)
    val other = new Machine(8)
    val stuck = new Partition(other, gain = _ => 1.0)
    val had = (0 until 20).map { _ =>
      batches(other, 1)(stuck, rows = 10000)
      stuck.lanes
    }
    assert(had.contains(8) && had.drop(6).forall(_ == 1), had)
  }

  /** Batches of a partition whose rows are all there before anything is known of them. `gain` says what so many lanes make of one
    * lane's rate, `slow` which batches take how many times as long.
    */
  private final class Batches(
      machine: Machine,
      gain: Int => Double = _.toDouble,
      slow: Map[Int, Double] = Map.empty
  ) {
    private val growth = new LaneGrowth(machine.cores, maxLanes = 64, LaneGrowth.Pace.Ahead)
    private var number = 0L
    private var last = Option.empty[BatchRecord]
    var wanted = 1

    /** The lanes of the next one, of so many seconds of one lane's work. */
    def next(seconds: Double, part: Int = 8, whole: Boolean = true, granted: Int = 64): Int = {
      wanted = growth.atStart(wanted, last, part)
      number += 1
      val lanes = math.min(wanted, granted)
      val took = (seconds / gain(lanes) * 1e9 * slow.getOrElse(number.toInt, 1.0)).toLong
      if (seconds > 0)
        last =
          Some(BatchRecord(number, lanes, (seconds * 1000).toLong, (seconds * 1e9).toLong, took, whole))
      wanted
    }
  }

  test("a batch begins with lanes as its forerunner's work was worth, as far as cores are idle") {
    val machine = new Machine(8)
    machine.cores.taskStarted(LoneTask())
    val of = new Batches(machine)
    of.wanted = 8
    of.next(0.3)
    def lanes(seconds: Double*) = seconds.map(of.next(_))
    assert(lanes(3.5, 3.5, 100, 100, 100, 0, 0, 1.5, 0.3, 0.3) == Seq(1, 3, 3, 8, 8, 8, 8, 8, 1, 1))
    def ofFour(seconds: Double*) = seconds.map(of.next(_, part = 4))
    assert(ofFour(100, 100, 100) == Seq(1, 4, 4))
    machine.budget.take(5)
    assert(of.next(100) == 3)
    machine.budget.take(100)
    assert(of.next(100) == 1)
  }

  test("a batch that has all its rows at once gets lanes with the next one, which a whole batch judges") {
    def machine() = { val m = new Machine(8); m.cores.taskStarted(LoneTask()); m }
    val good = new Batches(machine())
    assert((0 until 6).map(_ => good.next(9)) == Seq(1, 1, 8, 8, 8, 8))
    val cold = new Batches(machine(), slow = Map(1 -> 3.0, 3 -> 8.0, 4 -> 4.0))
    assert((0 until 8).map(_ => cold.next(9)) == Seq(1, 1, 8, 8, 8, 8, 8, 8), "workers start")
    val stuck = new Batches(machine(), gain = _ => 1.0)
    val had = (0 until 200).map(_ => stuck.next(9))
    assert(had.take(10) == Seq(1, 1, 8, 8, 8, 1, 1, 1, 1, 8), "tried again after a rest of 30 s")
    assert(had.count(_ == 8) <= 21, "which doubles")
    val cut = new Batches(machine(), gain = _ => 1.0)
    val parts = (0 until 9).map(i => cut.next(9, whole = i < 2 || i > 4))
    assert(parts == Seq(1, 1, 8, 8, 8, 8, 8, 8, 1), "no verdict without whole batches")
    val refused = new Batches(machine())
    assert((0 until 4).map(_ => refused.next(9, granted = 1)) == Seq(1, 1, 8, 8))
    assert(
      refused.next(9, part = 1) == 1 && refused.next(9) == 8,
      "lanes that it has not got are tried again"
    )
    val full = machine()
    full.load = 1.0
    full.turn()
    val none = new Batches(full)
    assert((0 until 4).map(_ => none.next(9)) == Seq(1, 1, 1, 1), "no CPU time is left")
  }

  test("several that cannot keep up share the idle cores") {
    val machine = new Machine(8)
    val all = Seq.fill(2)(new Partition(machine))
    turns(machine, 20)(all.foreach(_.turn(10000)))
    assert(all.map(_.lanes) == Seq(4, 4) && machine.cores.idle == 0)
  }

  test("who is asked no more, taken over or gone, holds nobody back") {
    val machine = new Machine(16)
    val other = new Partition(machine)
    (0 until 8).foreach(_ => machine.cores.want(new Object, lanes = 1, more = true))
    turns(machine, 20)(other.turn(20000))
    assert(other.lanes == 16 && machine.cores.idle == 0)
  }

  test("lanes that bring nothing are given back and tried again after longer and longer rests") {
    val machine = new Machine(8)
    val stuck = new Partition(machine, gain = _ => 1.0)
    var more = 0
    turns(machine, 2 * 3600)(if (stuck.turn(10000) > 1) more += 1)
    assert(more > 0 && more <= 2 * 3600 / 50, "a fiftieth of an hour at most")
  }

  test("a machine without CPU time left has no idle cores, whatever Spark was told") {
    val machine = new Machine(8)
    machine.load = 1.0
    val hot = new Partition(machine)
    turns(machine, 20)(hot.turn(10000))
    assert(hot.lanes == 1)
    machine.load = 0.4
    turns(machine, 20)(hot.turn(10000))
    assert(hot.lanes == 8)
  }

  test("when Spark starts tasks their cores are given back") {
    val machine = new Machine(4)
    val hot = new Partition(machine)
    turns(machine, 20)(hot.turn(10000))
    assert(hot.lanes == 4)
    val tasks = Seq.fill(2)(LoneTask())
    tasks.foreach(machine.cores.taskStarted)
    turns(machine, 20)(hot.turn(10000))
    assert(hot.lanes == 2)
    tasks.foreach(_.markTaskCompleted(None))
    turns(machine, 20)(hot.turn(10000))
    assert(hot.lanes == 4)
  }

  /** Lanes of functions that read ahead take a deal of 1,000 rows, work on it for a little more than a second, and take the next. */
  private final class Ahead(machine: Machine, gain: Int => Double) extends Growing(machine) {
    private val growth = new LaneGrowth(machine.cores, maxLanes = 64, LaneGrowth.Pace.Ahead)
    private var nextDealNs = 0L
    private var total = 0L

    def turn(): Int = {
      while (nextDealNs <= machine.nowNs) {
        total += 1000L * lanes
        nextDealNs += (1.07e9 * lanes / gain(lanes)).toLong
      }
      growth.saw(machine.nowNs, total)
      change(growth.turn(lanes, lanes.toDouble, worth = true))
    }
  }

  test("lanes whose rows come in by deals of a second are kept if they help, and only then") {
    val (helped, stuck) = (new Machine(8), new Machine(8))
    val (good, bad) = (new Ahead(helped, _.toDouble), new Ahead(stuck, _ => 1.0))
    // Long after the first trial, however deals fall together with the samples.
    val lanes = (0 until 60).map { _ =>
      helped.turn()
      good.turn()
    }
    assert(lanes.drop(10).forall(_ == 8), lanes)
    val none = (0 until 60).map { _ =>
      stuck.turn()
      bad.turn()
    }
    assert(none.contains(8) && none.drop(30).forall(_ == 1), none)
  }
}
