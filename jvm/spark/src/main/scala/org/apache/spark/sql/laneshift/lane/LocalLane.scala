package org.apache.spark.sql.laneshift.lane

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.streaming.state.StateStoreTracking
import org.apache.spark.sql.laneshift.body.LaneContext

/** The rows of a lane that runs on a thread of the task's process, and what has to be done between its bodies and at its end. Its
  * thread calls this.
  */
private[lane] trait FedLane extends LaneContext {

  /** Where all that follows from the rows goes. */
  def out: LaneOutput

  /** A body has ended, and `out` has all that it gave. If it was restarting, another one follows. */
  def bodyEnded(): Unit

  /** All bodies have ended, and what they had from Spark has, too. */
  def done(): Unit
}

/** Runs a lane on one thread of the task's process: its body over its rows, under a task context of its own. */
private[lane] final class LocalLane(
    task: DirectTask,
    fed: FedLane,
    newBody: () => RDD[InternalRow],
    split: Partition
) {
  private val taskContext = task.newLaneContext()

  /** What the lane's bodies have counted; complete once every thread of the task has ended. */
  def counted: TaskMetrics = taskContext.metrics

  /** Begins. If it throws, nothing has begun. */
  def start(): Unit = task.threads.start(s"lane ${fed.lane.value}") {
    val failure = taskContext.run(LaneContext.within(fed)(work()))
    // The last of a lane: the task ends once every lane is done, and a failure has to come before.
    failure.fold(fed.done())(task.threads.fail)
  }

  private def work(): Unit = {
    val body = newBody()
    var goesOn = true
    while (goesOn) {
      val outputs = LaneBody.begin(body, split, TaskContext.get(), task.spec.usesPython)
      while (outputs.hasNext) fed.out.add(outputs.next())
      goesOn = fed.isRestarting
      if (goesOn) {
        StateStoreTracking.clear()
        LaneAccumulators.forgetSeal(taskContext.metrics, task.spec.onceMetrics)
      }
      fed.bodyEnded()
      if (goesOn) taskContext.renew()
    }
  }
}
