package org.apache.spark.sql.laneshift.plan

import org.scalatest.concurrent.Eventually.{eventually, PatienceConfig}

import org.apache.spark.sql.laneshift.{ElasticSession, Patience}
import org.apache.spark.sql.laneshift.spec.TaskWish

import laneshift.testing.LimitedSuite

/** What was asked for becomes a number of tasks. */
class TaskCountsSuite extends LimitedSuite with ElasticSession {
  private implicit val patience: PatienceConfig = Patience.long

  test("a wish is read as it is written") {
    Seq("stock", "auto", "1", "12", "<=4").foreach { text =>
      assert(TaskWish.of(text).map(TaskWish.text).contains(text))
    }
    Seq("", "0", "-1", "<=0", "<=", "<= 4", "<=many", ">=4", "some").foreach { text =>
      assert(TaskWish.of(text).isEmpty, text)
    }
  }

  test("so many at most: no more than there are partitions and, in Real-time Mode, free slots") {
    val input = spark.sparkContext.parallelize(Seq(1), 1)
    def of(wish: TaskWish, partitions: Int, realTime: Boolean) =
      TaskCounts.of(wish, partitions, realTime, Seq(input), regions = 2)
    assert(of(TaskWish.UpTo(2), 3, realTime = false) == 2)
    assert(of(TaskWish.UpTo(9), 3, realTime = false) == 3)
    // Eight slots, four for each operator; tasks of an earlier suite may still end.
    eventually(assert(of(TaskWish.Auto, 12, realTime = true) == 4))
    assert(of(TaskWish.UpTo(12), 12, realTime = true) == 4)
    assert(of(TaskWish.UpTo(3), 12, realTime = true) == 3)
    assert(of(TaskWish.Exactly(12), 12, realTime = true) == 12)
  }

  test("left to laneshift a micro-batch has four tasks a slot at most") {
    val input = spark.sparkContext.parallelize(Seq(1), 1)
    def tasks(partitions: Int) =
      TaskCounts.of(TaskWish.Auto, partitions, realTime = false, Seq(input), regions = 1)
    assert(Seq(1, 31, 32, 33, 200).map(tasks) == Seq(1, 31, 32, 32, 32))
    def asking(settings: (String, String)*)(partitions: Int): Int = {
      val conf = spark.sparkContext.conf
      val before = settings.map { case (key, _) => key -> conf.getOption(key) }
      settings.foreach { case (key, value) => conf.set(key, value) }
      try tasks(partitions)
      finally before.foreach { case (key, value) => value.fold(conf.remove(key))(conf.set(key, _)) }
    }
    // Executors that are on their way: of eight slots there are more to come, or all are there.
    assert(asking("spark.cores.max" -> "12")(200) == 48)
    assert(asking("spark.executor.instances" -> "5", "spark.executor.cores" -> "4")(200) == 80)
    assert(asking(
      "spark.executor.instances" -> "5",
      "spark.executor.cores" -> "4",
      "spark.task.cpus" -> "2"
    )(200) == 40)
    assert(asking("spark.cores.max" -> "4")(200) == 32)
  }
}
