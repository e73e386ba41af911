package laneshift.lane.explore

import laneshift.testing.LimitedSuite

/** A part of what `make prove` does; the same schedules every time. */
class ScheduleExplorerSuite extends LimitedSuite {

  test(
    "20,000 schedules: every row once and in order, one owner, bounds kept, nobody stuck, one commit or none"
  ) {
    ScheduleExplorer.firstBroken(first = 1L, count = 20000L).foreach(b => fail(b.story, b.what))
  }

  test("a seed alone repeats a schedule, step by step") {
    def lines(seed: Long): Seq[String] = {
      val trace = new Trace
      new Schedule(seed, trace).run()
      trace.lines.toSeq
    }
    (1L to 50L).foreach(seed => assert(lines(seed) == lines(seed)))
    assert((1L to 50L).map(lines).distinct.size == 50)
  }

  test("schedules come to commits and to failures, and to handoffs") {
    val traces = (1L to 2000L).map { seed =>
      val trace = new Trace
      new Schedule(seed, trace).run()
      trace.lines.mkString("\n")
    }
    val happens = Seq(
      "committed: true",
      "committed: false",
      "killed from outside",
      "lane 3    is stopped",
      "receiver  is stopped",
      "emitter   is stopped",
      "notices that it is recalled",
      "with 2 rows",
      "is under way",
      "the batch is ending",
      "offers row",
      "with session 2: true",
      "with session 1: false",
      "loses its host, which is silent",
      "loses its host, which is gone",
      "does not look at Frame",
      "answers: key",
      "and lets go",
      "leaves"
    )
    happens.foreach(what => assert(traces.exists(_.contains(what)), what))
    assert(traces.exists(_.linesIterator.exists(l => l.contains("ends the input: false"))))
  }
}
