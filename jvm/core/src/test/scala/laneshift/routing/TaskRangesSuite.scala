package laneshift.routing

import laneshift.testing.LimitedSuite

class TaskRangesSuite extends LimitedSuite {

  test("ranges are those of key groups") {
    def bounds(partitions: Int, tasks: Int) = {
      val ranges = TaskRanges(partitions, tasks)
      (0 until tasks).map(ranges.of).map(r => (r.start, r.last))
    }
    // The vectors of Flink's own classes.
    assert(bounds(10, 3) == Seq((0, 3), (4, 6), (7, 9)))
    assert(bounds(10, 4) == Seq((0, 2), (3, 4), (5, 7), (8, 9)))
  }

  test("every partition is one task's, and sizes differ by one at most") {
    for {
      partitions <- 1 to 70
      tasks <- 1 to partitions
      ranges = TaskRanges(partitions, tasks)
    } {
      assert((0 until tasks).flatMap(ranges.of) == (0 until partitions))
      assert((0 until partitions).forall(p => ranges.of(ranges.taskOf(p)).contains(p)))
      val sizes = (0 until tasks).map(ranges.of(_).size)
      assert(sizes.max - sizes.min <= 1)
    }
  }

  test("there is a task at least and a partition for each") {
    Seq(0, -1, 5).foreach { tasks =>
      val wrong = intercept[IllegalArgumentException](TaskRanges(4, tasks))
      assert(wrong.getMessage.contains(s"$tasks tasks for 4 partitions; allowed are 1 to 4"))
    }
  }
}
