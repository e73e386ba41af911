package org.apache.spark.sql.laneshift.lane

import org.apache.spark.{TaskContext, TaskContextImpl, TaskKilledException}
import org.apache.spark.api.python.{PythonRunner, PythonWorker}
import org.apache.spark.sql.laneshift.ElasticSession

import laneshift.testing.LimitedSuite

class LaneTaskContextSuite extends LimitedSuite with ElasticSession {

  private def withLane(test: (TaskContextImpl, LaneTaskContext, TaskThreads) => Unit): Unit = {
    assert(spark.version.nonEmpty, "Spark's environment")
    val task = new LaneTaskContext(TaskIdentity.of(TaskContext.empty()), () => None)
    val threads = new TaskThreads("a task", task.current, _ => ())
    val lane = LaneTaskContext.of(TaskIdentity.of(task.current), task.current, threads)
    try test(task.current, lane, threads)
    finally {
      lane.complete(None)
      task.complete(None)
      TaskContext.unset()
    }
  }

  test("a lane hears that its task was killed, also after it has begun anew") {
    withLane { (task, lane, _) =>
      assert(!lane.current.isInterrupted())
      task.markInterrupted("planted")
      (0 to 1).foreach { _ =>
        assert(lane.current.isInterrupted() && lane.current.getKillReason().contains("planted"))
        assert(intercept[TaskKilledException](lane.current.killTaskIfInterrupted()).reason == "planted")
        lane.renew()
      }
    }
  }

  test("and that the task ends before it, whatever for") {
    withLane { (task, lane, threads) =>
      threads.fail(new IllegalStateException("planted"))
      assert(lane.current.isInterrupted() && lane.current.getKillReason().exists(_.contains("planted")))
      assert(!task.isInterrupted(), "Spark may not take a task that fails for one that was killed")
    }
  }

  test("the worker of a body that begins anew is watched anew") {
    withLane { (task, lane, _) =>
      val watched = PythonRunner.runningMonitorThreads
      val none = Option.empty[PythonWorker].orNull
      val (mine, others) = ((none, task.taskAttemptId), (none, -7L))
      try {
        watched.add(mine)
        watched.add(others)
        lane.renew()
        assert(!watched.contains(mine) && watched.contains(others))
      } finally Seq(mine, others).foreach(watched.remove)
    }
  }
}
