package org.apache.spark.sql.laneshift.lane

import java.util.concurrent.CountDownLatch

import org.apache.spark.{TaskContext, TaskContextImpl, TaskKilledException}
import org.apache.spark.api.python.{PythonRunner, PythonWorker}
import org.apache.spark.memory.{MemoryConsumer, MemoryMode}
import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.util.{AccumulatorMetadata, LongAccumulator}

import laneshift.lane.CoreShare
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

  /** What a partition of a task keeps for itself, and gives up when its own next rows need it, as an operator that sorts does. */
  private final class Kept(of: LaneTaskContext)
      extends MemoryConsumer(of.current.taskMemoryManager, MemoryMode.ON_HEAP) {
    override def spill(size: Long, asking: MemoryConsumer): Long = {
      val all = getUsed
      freeMemory(all)
      all
    }
  }

  test("a partition that waits for memory leaves the core to the one of its task that has it") {
    withLane { (task, first, threads) =>
      val second = LaneTaskContext.of(TaskIdentity.of(task), task, threads)
      val share = new CoreShare(1)
      val (taken, asking) = (new CountDownLatch(1), new CountDownLatch(1))
      def started(body: => Unit): Thread = {
        val thread = new Thread(() => CoreShare.within(share)(body))
        thread.setDaemon(true)
        thread.start()
        thread
      }
      val one = started {
        val kept = new Kept(first)
        // All that there is.
        kept.acquireMemory(Long.MaxValue / 4)
        taken.countDown()
        CoreShare.waiting(asking.await())
        // Its next row needs more, and so it gives up what it has.
        kept.acquireMemory(1L << 20)
        kept.freeMemory(kept.getUsed)
      }
      taken.await()
      val other = started {
        asking.countDown()
        val kept = new Kept(second)
        kept.acquireMemory(1L << 20)
        kept.freeMemory(kept.getUsed)
      }
      try Seq(one, other).foreach { thread =>
          thread.join(30000)
          assert(!thread.isAlive, thread.getStackTrace.mkString("\n"))
        }
      finally {
        Seq(one, other).foreach(_.interrupt())
        second.complete(None)
      }
      assert(share.idle == 1)
    }
  }

  test("what a task has counted before its lanes is one with what they have") {
    withLane { (task, lane, _) =>
      def counter(id: Long, count: Long) = {
        val of = new LongAccumulator
        of.metadata = AccumulatorMetadata(id, None, countFailedValues = false)
        of.add(count)
        of
      }
      val other = new LaneTaskContext(TaskIdentity.of(task), () => None)
      task.registerAccumulator(counter(1L, 3L))
      lane.current.registerAccumulator(counter(1L, 4L))
      lane.current.registerAccumulator(counter(2L, 1L))
      other.current.registerAccumulator(counter(1L, 5L))
      LaneAccumulators.merge(Seq(lane, other).map(_.metrics), Nil, task, Set.empty)
      other.complete(None)
      val told = LaneAccumulators.of(task.taskMetrics)
      assert(told.map(acc => acc.id -> acc.value) == Seq(1L -> 12L, 2L -> 1L))
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
