package org.apache.spark.sql.laneshift.driver

import scala.concurrent.duration._

import org.scalatest.concurrent.{Signaler, ThreadSignaler, TimeLimitedTests}
import org.scalatest.time.{Minutes, Span}

import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.laneshift.lane.HostAddress
import org.apache.spark.sql.laneshift.runtime.{
  ExecutorRequest,
  ExecutorView,
  LaneWish,
  PartitionCommand,
  PartitionMemory
}

import laneshift.testing.LimitedSuite

/** Looks at executors: when there are any, and what becomes of lanes on executors that need their cores for tasks. */
class LooksSuite extends LimitedSuite with ElasticSession with TimeLimitedTests {
  override val timeLimit: Span = Span(2, Minutes)
  override val defaultTestSignaler: Signaler = ThreadSignaler

  private def host(lanes: Int, tasks: Int) = ExecutorView.idle.copy(hostLanes = lanes, tasks = tasks)

  private def load(leaving: Boolean, view: ExecutorView) =
    ExecutorLoad("1", "host", 4, 1, leaving, Some(view))

  test("lanes of others go for which there is no core, and all of them where the executor leaves") {
    assert(load(leaving = false, host(3, 1)).surplusLanes == 0)
    assert(load(leaving = false, host(3, 3)).surplusLanes == 2)
    assert(load(leaving = false, host(1, 5)).surplusLanes == 1)
    assert(load(leaving = true, host(3, 1)).surplusLanes == 3)
  }

  test("a host that needs its cores gets them back, from who has most there, if it needs them twice") {
    val wanting = FakeQuery.views.take(2).zip(Seq(1, 4)).map { case (view, lanes) =>
      view.copy(wantedElsewhere = Seq("1" -> lanes, "9" -> 5))
    }
    val executors = new ExecutorDirectory
    val home = new FakeExecutor("2", wanting)
    val sites = wanting.map(PartitionSite(ExecutorRef("2", "host", home), _))
    def told = home.asked.collect { case request: ExecutorRequest.OfPartitions => request.commands }.flatten
      .collect { case leave: PartitionCommand.Leave => (leave.partition, leave.lanes) }
    def short(of: Int) = Look(Seq(load(leaving = false, host(lanes = 5, tasks = of - 1))), sites)
    val looks = Seq(3, 0, 4).map(short)
    (Look(Nil, Nil) +: looks).zip(looks).foreach { case (before, now) => now.makeRoom(before, executors) }
    assert(told.isEmpty, "it was once only")
    short(of = 3).makeRoom(looks.last, executors)
    // A fake one gives up two.
    assert(told == Seq(wanting(1).index -> 3, wanting.head.index -> 1))
    val leaving = Look(Seq(load(leaving = true, host(lanes = 2, tasks = 0))), sites)
    leaving.makeRoom(Look(Nil, Nil), executors)
    assert(told.drop(2) == Seq(wanting(1).index -> 2), "one that leaves is left at once")
  }

  private def thread: Boolean = Thread.getAllStackTraces.keySet.stream.anyMatch(_.getName == "laneshift look")

  private def withDriver(everyMs: Long)(body: (DriverState, FakeExecutor) => Unit): Unit = {
    spark // with which Spark begins
    val executors = new ExecutorDirectory(1.hour)
    val executor = new FakeExecutor("1", FakeQuery.views).register(executors)
    val driver = new DriverState(_ => (), executors, lookMs = everyMs)
    while (thread) Thread.onSpinWait() // of queries before this one
    try body(driver, executor)
    finally driver.looks.stop()
  }

  test("nobody is asked as long as nobody needs it; the thread ends with the need") {
    withDriver(everyMs = 1L) { (driver, executor) =>
      driver.runs.onOtherEvent(FakeQuery.started)
      assert(!thread && executor.asked.isEmpty, "no operator of it is elastic")
      driver.runs.all.head.becomesElastic()
      while (executor.asked.isEmpty) Thread.onSpinWait()
      driver.runs.onOtherEvent(FakeQuery.terminated)
      while (thread) Thread.onSpinWait()
      // It goes on for another that needs it.
      driver.runs.onOtherEvent(FakeQuery.started)
      driver.runs.all.head.becomesElastic()
      assert(thread)
    }
  }

  test("whether lanes are wanted on other executors is known without asking") {
    val run = new Run(RunName("q", "r", None))
    def told(elsewhere: Map[HostAddress, Int]) =
      run.remember(0L, 0, PartitionMemory(1L, LaneWish(1, auto = false, elsewhere), Array.empty, Array.empty))
    assert(!run.wantsElsewhere)
    told(Map(HostAddress("9", "host", 1) -> 2))
    assert(run.wantsElsewhere && run.elsewhere(0L) == Map("9" -> 2) && run.elsewhere(1L).isEmpty)
    told(Map.empty)
    assert(!run.wantsElsewhere && run.elsewhere(0L).isEmpty)
  }
}
