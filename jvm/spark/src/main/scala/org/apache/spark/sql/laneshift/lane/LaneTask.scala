package org.apache.spark.sql.laneshift.lane

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.laneshift.body.SharedPartition

/** A Spark task that computes an elastic partition, as the partition that outlives it knows it. */
private[laneshift] trait LaneTask {

  /** Its lanes on other executors. */
  def remote: RemoteLanes
}

/** A task that can begin with its only lane on its own thread, and go over to threads. */
private[lane] trait DirectTask extends LaneTask {

  /** What the lane's stores and operators share with others. */
  def directPartition: Option[SharedPartition]

  def home: PartitionHome
  def context: TaskContext

  private[lane] def threads: TaskThreads
  protected def start: BatchStart
  protected def metrics: Map[String, SQLMetric]

  /** Makes the task known, and its threads end before it does. The partition forgets it when all else of it is over. */
  protected def beginTask(): Unit = {
    context.addTaskCompletionListener[Unit](_ => home.abandon(this))
    threads.endBeforeTask()
    home.begun(this)
  }

  private[lane] def newLaneContext(): LaneTaskContext =
    LaneTaskContext.of(TaskIdentity.of(context), context, threads)

  def beginDirect(lane: DirectLane): Unit

  /** Starts receiver and lanes; what they put out. */
  protected def startThreads(): Iterator[InternalRow]

  /** The lane's body has ended for the change to threads. */
  def goThreaded(lane: DirectLane): Iterator[InternalRow] = {
    metrics("rowsIn") += lane.rows
    startThreads()
  }

  /** The lane has put out everything. */
  def endDirect(lane: DirectLane): Unit = {
    home.endBatch(this, start.routing)
    metrics("lanes").set(1)
    metrics("rowsIn") += lane.rows
    metrics("busiestLaneRows") += lane.rows
  }
}
