package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.CountDownLatch

import org.apache.spark.scheduler.StageTasks
import org.apache.spark.sql.laneshift.ElasticSession

import laneshift.testing.LimitedSuite

/** What there is to do, as Spark's own scheduler has it. */
class StageTasksSuite extends LimitedSuite with ElasticSession {

  private def slots = StageTasks.slots(spark.sparkContext)

  /** `whileRunning` once as many tasks as there are slots run, of so many; then all of them end. */
  private def job(tasks: Int)(whileRunning: => Unit): Unit = {
    val sc = spark.sparkContext
    StageTasksSuite.begins(math.min(tasks, slots))
    val rows = sc.parallelize(0 until tasks, tasks)
    val job = sc.submitJob(rows, StageTasksSuite.task, 0 until tasks, (_: Int, _: Unit) => (), ())
    try {
      StageTasksSuite.begun.await()
      whileRunning
    } finally StageTasksSuite.over.countDown()
    job.get()
  }

  private def running = StageTasks.running().getOrElse("driver", 0)

  for (waiting <- Seq(0, 3))
    test(s"tasks that run are those of the scheduler while $waiting others wait, and none are left behind") {
      var during = 0
      job(slots + waiting) {
        during = running
        // Tasks of an earlier suite may still end.
        assert(during >= slots && StageTasks.outstanding(spark.sparkContext) >= slots + waiting)
      }
      assert(running <= during - slots)
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
