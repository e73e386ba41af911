package org.apache.spark.sql.laneshift.lane

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.{Partition, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.sql.laneshift.ElasticSession

import laneshift.testing.LimitedSuite

class LaneCpuSuite extends LimitedSuite with ElasticSession {

  test("the CPU time of lanes is the task's") {
    val sc = spark.sparkContext
    val day = 24L * 3600 * 1000000000L
    val said = new AtomicLong
    val listener = new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit = {
        said.addAndGet(end.taskMetrics.executorCpuTime)
        assert(end.taskInfo.accumulables.forall(!_.name.exists(_.contains("laneshift"))))
      }
    }
    val before = TaskThreads.cpuNs
    TaskThreads.cpuNs = () => day
    sc.addSparkListener(listener)
    try {
      new LanesOnly(sc).count()
      sc.listenerBus.waitUntilEmpty()
    } finally {
      TaskThreads.cpuNs = before
      sc.removeSparkListener(listener)
    }
    assert(said.get >= 3 * day && said.get < 4 * day, "and that of the task's own thread")
  }
}

/** A task with three lanes on threads of their own. */
private final class LanesOnly(sc: SparkContext) extends RDD[Int](sc, Nil) {
  private[lane] val laneCpu = LaneCpu.of(sc)

  override protected def getPartitions: Array[Partition] = Array(LanesOnly.Split)

  override def compute(split: Partition, context: TaskContext): Iterator[Int] = {
    val threads = new TaskThreads("a task", context, error => throw error)
    (0 until 3).foreach(lane => threads.start(s"lane $lane")(()))
    threads.join()
    Iterator.empty
  }
}

private object LanesOnly {
  case object Split extends Partition { override def index: Int = 0 }
}
