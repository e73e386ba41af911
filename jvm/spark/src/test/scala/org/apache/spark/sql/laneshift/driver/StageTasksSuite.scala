package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.CountDownLatch

import org.apache.spark.scheduler.StageTasks
import org.apache.spark.sql.laneshift.ElasticSession

import laneshift.testing.LimitedSuite

/** What there is to do, as Spark's own scheduler has it. */
class StageTasksSuite extends LimitedSuite with ElasticSession {

  test("tasks that run and tasks that wait are those of the scheduler, and none are left behind") {
    val sc = spark.sparkContext
    val slots = sc.maxNumConcurrentTasks(sc.resourceProfileManager.defaultResourceProfile)
    val property = "laneshift.test"
    def mine = StageTasks.now().filter(_.has(property))
    StageTasksSuite.begins(slots)
    sc.setLocalProperty(property, "")
    val job =
      try
        sc.submitJob(
          sc.parallelize(0 until slots + 3, slots + 3),
          StageTasksSuite.task,
          0 until slots + 3,
          (_: Int, _: Unit) => (),
          ()
        )
      finally sc.setLocalProperty(property, None.orNull)
    try {
      StageTasksSuite.begun.await()
      assert(mine.size == 1)
      val stage = mine.head
      assert(stage.waiting == 3 && stage.wanted == slots + 3 && stage.running == Seq.fill(slots)("driver"))
      // Tasks of an earlier suite may still end.
      assert(StageTasks.outstanding(sc) >= slots + 3)
    } finally StageTasksSuite.over.countDown()
    job.get()
    assert(mine.forall(_.wanted == 0))
  }
}

private object StageTasksSuite {
  @volatile var begun, over = new CountDownLatch(0)

  def begins(tasks: Int): Unit = {
    begun = new CountDownLatch(tasks)
    over = new CountDownLatch(1)
  }

  val task: Iterator[Int] => Unit = _ => {
    begun.countDown()
    over.await()
  }
}
