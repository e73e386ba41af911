package org.apache.spark.sql.laneshift.lane

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.streaming.state.StateStoreTracking
import org.apache.spark.sql.laneshift.body.LaneContext

import laneshift.ids.LaneId

/** Lanes on threads of the task's own process. */
private[laneshift] final class LocalLanes(newBody: () => RDD[InternalRow], split: Partition) extends Lanes {
  override private[lane] def make(task: PartitionTask, id: LaneId): Lane =
    new LocalLane(task, id, newBody, split)
}

/** A lane on one thread of the task's process: runs the body over the lane's rows, under a task context of its own. */
private[lane] final class LocalLane(
    task: PartitionTask,
    override val id: LaneId,
    newBody: () => RDD[InternalRow],
    split: Partition
) extends Lane {

  private val taskContext = task.newLaneContext()
  private val out = new LaneOutput(task.spec, task.putOut(id, _))
  private val lane = new QueuedLane(task, id, out)

  override def counted: TaskMetrics = taskContext.metrics

  override def start(): Unit = task.threads.start(s"lane ${id.value}")(run())

  private def run(): Unit = {
    var failure: Option[Throwable] = None
    try LaneContext.within(lane)(work())
    catch { case error: Throwable => failure = Some(error) }
    // Listeners close iterators and report leaks: before the task may think that this lane is done.
    try taskContext.complete(failure)
    catch { case error: Throwable => failure = failure.orElse(Some(error)) }
    TaskContext.unset()
    StateStoreTracking.clear()
    task.inlet.left(id)
    task.endScans.leave(id)
    // The last of a lane: the emitter ends the task once every lane is done, and a failure has to come before.
    failure.fold(task.outlet.producerDone())(task.threads.fail)
  }

  private def work(): Unit = {
    TaskContext.setTaskContext(taskContext.current)
    val body = newBody()
    var outputs = LaneBody.begin(body, split, taskContext.current, task.spec.usesPython)
    var running = true
    while (running) {
      while (outputs.hasNext) out.add(outputs.next())
      if (lane.isRestarting) {
        StateStoreTracking.clear()
        LaneAccumulators.forgetSeal(taskContext.metrics, task.spec.onceMetrics)
        lane.restarted()
        taskContext.renew()
        outputs = LaneBody.begin(body, split, taskContext.current, task.spec.usesPython)
      } else running = false
    }
    lane.checkAllRead()
    out.flush()
  }
}
