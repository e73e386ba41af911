package org.apache.spark.sql.laneshift.runtime

import scala.util.Random

import laneshift.routing.TaskRanges
import laneshift.testing.LimitedSuite

/** Where tasks that compute ranges of state partitions go: where their stores are. */
class TaskPlacesSuite extends LimitedSuite {
  private def places(tasks: Int, at: Seq[String]): Seq[String] =
    TaskRangeRDD.places(TaskRanges(at.size, tasks), at.map(Seq(_)).toIndexedSeq).map(_.head)

  /** Where each partition's store is after a batch in so many tasks, each of which has run where it was to. */
  private def after(tasks: Int, at: Seq[String]): Seq[String] = {
    val ranges = TaskRanges(at.size, tasks)
    val chosen = places(tasks, at)
    at.indices.map(p => chosen(ranges.taskOf(p)))
  }

  private def moved(before: Seq[String], now: Seq[String]): Int =
    before.zip(now).count { case (a, b) => a != b }

  test("stores stay when tasks are halved, doubled, or as many as before") {
    val eight = Seq("a", "a", "b", "b", "c", "c", "d", "d")
    assert(after(4, eight) == eight)
    assert(after(8, eight) == eight)
    val four = after(2, eight)
    // Each range had two executors: half of its stores stay.
    assert(moved(eight, four) == 4 && four.distinct.size == 2)
    // Back to more: all stay where they are now.
    assert(moved(four, after(8, four)) == 0 && moved(four, after(2, four)) == 0)
  }

  test("no other choice would leave more stores where they are") {
    val random = new Random(11L)
    (1 to 300).foreach { _ =>
      val partitions = 1 + random.nextInt(24)
      val executors = (1 to 1 + random.nextInt(4)).map("e" + _)
      val at = Seq.fill(partitions)(executors(random.nextInt(executors.size)))
      val tasks = 1 + random.nextInt(partitions)
      val stay = partitions - moved(at, after(tasks, at))
      val most = (0 until tasks).map { task =>
        val range = TaskRanges(partitions, tasks).of(task)
        executors.map(e => range.count(at(_) == e)).max
      }.sum
      assert(stay == most, s"$at in $tasks tasks")
    }
  }

  test("of places with as many stores each, the one with fewer tasks: no executor is left idle") {
    val dealt = Seq.tabulate(8)(p => if (p % 2 == 0) "a" else "b")
    assert(places(4, dealt).groupBy(identity).values.map(_.size).toSeq == Seq(2, 2))
    assert(places(2, dealt).toSet == Set("a", "b"))
  }

  test("a partition that is nowhere has no say, and a task of such goes anywhere") {
    val at = IndexedSeq(Nil, Nil, Seq("a"), Nil)
    assert(TaskRangeRDD.places(TaskRanges(4, 2), at) == Seq(Nil, Seq("a")))
  }
}
