package org.apache.spark.sql.laneshift.driver

import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Seconds, Span}

import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.laneshift.runtime.{Cores, HeldLeases}
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent

import laneshift.lane.LaneBudget
import laneshift.testing.LimitedSuite

/** Cores that Spark tasks hold for lanes, on a cluster that does as a test wants. */
class LeasesSuite extends LimitedSuite with ElasticSession with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(110, Seconds), Span(20, Millis))

  private def setting(body: LeaseSetting => Unit): Unit = {
    val made = new LeaseSetting
    try body(made)
    finally made.close()
  }

  test("a lane is there while its lease is held, and nothing is held that nobody wants") {
    LeaseChecks.heldAndGivenBack()
  }

  test("a lease ends without the driver's word")(LeaseChecks.withoutWord())

  test("tasks of streaming queries come first")(LeaseChecks.tasksComeFirst())

  test("a lane waits for its lease, is shown as wanted, and is given up after five seconds") {
    setting { s =>
      s.jobs.begins = false
      s.want(0, 1)
      s.look()
      s.look()
      assert(s.home.wishes.isEmpty && s.jobs.submitted.size == 1, "asked once")
      assert(s.shown(0) == (Map("driver" -> 1) -> None))
      s.clock.addAndGet(Leases.PatienceMs)
      s.look()
      assert(s.jobs.unfinished == 0, "its job is cancelled")
      val (wanted, note) = s.shown(0)
      assert(wanted.isEmpty && note.exists(_.contains("executor driver: no core of it was free")))
      s.jobs.begins = true
      s.want(0, 1)
      s.look()
      assert(s.shown(0) == (Map("driver" -> 1) -> None), "asked again, the note is gone")
    }
  }

  test("there is a task only where a core is free, and no thread before somebody wants a lane") {
    setting { s =>
      assert(!s.leases.areUsed)
      s.want(0, 0)
      assert(!s.leases.areUsed)
      s.host.said = s.host.said.copy(homeLanes = s.cores - 1)
      s.want(0, 3)
      assert(s.leases.areUsed)
      s.look()
      assert(s.jobs.submitted.size == 1)
      assert(s.home.wishes == Seq(0 -> Map("driver" -> 1)))
    }
  }

  test("what streaming queries have had at a time lately is left to them, other jobs' tasks are not") {
    setting { s =>
      val cores = s.cores
      s.stageOfQuery(1, cores - 1)
      s.begun(1, cores - 1)
      s.stageOver(1)
      s.stage(2, 2 * cores)
      s.begun(2, 1)
      s.want(0, 2)
      s.look()
      assert(s.host.leases.count == 1, "one core is never used by the query's own")
      assert(s.home.wishes == Seq(0 -> Map("driver" -> 1)))
      s.begun(2, cores - 1)
      s.look()
      assert(s.host.leases.count == 1, "who waits in another job waits")
      s.stageOfQuery(3, 1)
      s.look()
      assert(s.host.leases.count == 1, "and so does a query's task behind it, for a moment")
      s.begun(3, 1)
      s.stageOver(3)
      s.stageOver(2)
      s.clock.addAndGet(130000L)
      s.want(1, 1)
      s.look()
      assert(s.host.leases.count == 2, "two minutes later it is forgotten")
    }
  }

  test("tasks that find a core take none from a lease") {
    setting { s =>
      s.want(0, 1)
      s.look()
      s.stageOfQuery(1, s.cores - 1)
      s.look()
      assert(s.host.leases.count == 1)
      s.begun(1, s.cores - 1)
      s.stageOfQuery(2, 1)
      s.look()
      eventually(assert(s.host.leases.count == 0))
    }
  }

  test("tasks that wait for whatever else end leases, too") {
    setting { s =>
      s.want(0, 2)
      s.look()
      s.stageOfQuery(1, 1)
      s.clock.addAndGet(1999L)
      s.look()
      assert(s.host.leases.count == 2, "a core is free for it")
      s.clock.addAndGet(1L)
      s.look()
      s.look()
      eventually(assert(s.host.leases.count == 1))
      s.begun(1, 1)
      s.clock.addAndGet(10000L)
      s.look()
      assert(s.host.leases.count == 1)
    }
  }

  test("a task that takes several cores is one slot") {
    setting { s =>
      s.cpus = s.cores
      s.want(0, 2)
      s.look()
      assert(s.host.leases.count == 1)
      s.stageOfQuery(1, 1)
      s.look()
      eventually(assert(s.host.leases.count == 0))
    }
  }

  test("a wish that the partition drops itself, or whose task Spark ends, is dropped") {
    setting { s =>
      s.want(0, 2)
      s.look()
      s.home.forgetWishes()
      s.look()
      eventually(assert(s.jobs.unfinished == 0))
      assert(s.shown(0) == (Map.empty -> Some("lost")), "in the partition's own words")
      s.want(1, 1)
      s.look()
      s.jobs.submitted.last.kill()
      eventually(assert(s.jobs.submitted.last.isOver))
      s.look()
      assert(s.home.wishes.isEmpty)
      assert(s.shown(1)._2.exists(_.contains("Spark has ended the task")) || s.shown(1)._2.contains("lost"))
    }
  }

  test("an executor that is gone, and one that does not answer") {
    setting { s =>
      s.want(0, 1)
      s.look()
      s.host.mood = FakeExecutor.TimesOut
      s.look()
      assert(s.shown(0)._1 == Map("driver" -> 1), "it may answer again")
      s.host.answerAll()
      s.directory.ends("driver")
      s.look()
      assert(s.shown(0)._1.isEmpty && s.home.wishes.isEmpty)
    }
  }

  test("beside a Real-time query there are none") {
    setting { s =>
      s.want(0, 2)
      s.look()
      assert(s.host.leases.count == 2)
      val run = java.util.UUID.randomUUID
      s.leases.giveWayTo(run.toString)
      assert(s.jobs.unfinished == 0 && s.host.leases.count == 0, "when it goes on no slot is held")
      assert(intercept[BesideRealTime](s.want(0, 1)).runId == run.toString)
      s.stopped = Set(run.toString)
      s.want(0, 1)
      s.look()
      assert(s.host.leases.count == 1, "it has stopped, and Spark's event is on its way")
      s.stopped = Set.empty
      s.want(0, 0)
      s.look()
      s.leases.onOtherEvent(new QueryTerminatedEvent(run, run, None, None))
      s.want(0, 1)
      s.look()
      assert(s.host.leases.count == 1)
    }
  }

  test("other lanes of the partition are set without a word about leases") {
    setting { s =>
      s.want(0, 1)
      s.look()
      s.leases.setLanes(s.site(0), 3, None)
      assert(s.site(0).view.wantedLanes == 3)
      s.look()
      assert(s.home.wishes == Seq(0 -> Map("driver" -> 1)))
    }
  }

  test("a Real-time query does not wait for an executor that is silent") {
    setting { s =>
      s.want(0, 2)
      s.look()
      assert(s.host.leases.count == 2)
      s.home.mood = FakeExecutor.Silent
      val asked = s.home.asked.size
      val look = new Thread(() => s.look())
      look.start()
      while (s.home.asked.size == asked) Thread.onSpinWait()
      s.leases.giveWayTo("a run")
      assert(look.isAlive, "the look has not heard of it yet")
      assert(s.jobs.unfinished == 0 && s.host.leases.count == 0)
      s.home.answerAll()
      look.join()
    }
  }

  test("tasks that hold leases are none of those that work") {
    setting { s =>
      s.stage(7, 1, HeldLeases.Property -> "a")
      s.begun(7, 1)
      s.stage(8, 2)
      s.begun(8, 1)
      assert(s.directory.inventory().head.activeTasks == 1)
      s.stageOver(8)
      assert(s.directory.inventory().head.activeTasks == 0)
      assert(s.leases.tasks.most == 0)
    }
  }

  test("cores that are held for lanes are not idle") {
    val budget = new LaneBudget(4)
    var held = 2
    val cores = new Cores(4, budget, () => 0.0, () => held)
    assert(cores.idle == 2)
    budget.take(2) // lanes that run under them
    held = 0
    assert(cores.idle == 2)
  }
}
