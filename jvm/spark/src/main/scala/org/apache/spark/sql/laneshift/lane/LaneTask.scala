package org.apache.spark.sql.laneshift.lane

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.laneshift.body.SharedPartition
import org.apache.spark.sql.laneshift.spec.ElasticSpec

import laneshift.lane.InletStats

/** A Spark task that computes an elastic partition, as the partition that outlives it knows it. */
private[laneshift] trait LaneTask {

  /** Its lanes on other executors. */
  def remote: RemoteLanes
}

/** A task whose lanes are fed by a receiver, each on a thread of its own. It can begin with its only lane on the task's thread, and
  * go over to threads.
  */
private[lane] trait DirectTask extends LaneTask with Logging {

  /** What the lane's stores and operators share with others. */
  def directPartition: Option[SharedPartition]

  def spec: ElasticSpec
  def home: PartitionHome
  def context: TaskContext
  private[lane] def threads: TaskThreads
  protected def start: BatchStart
  protected def metrics: Map[String, SQLMetric]
  protected def newBody: () => RDD[InternalRow]
  protected def bodySplit: Partition

  private val running = new ConcurrentLinkedQueue[LocalLane]
  private var queuePeak = 0L

  /** Makes the task known, and its threads end before it does. The partition forgets it when all else of it is over. */
  protected def beginTask(): Unit = {
    context.addTaskCompletionListener[Unit](_ => home.abandon(this))
    threads.endBeforeTask()
    home.begun(this)
  }

  private[lane] def newLaneContext(): LaneTaskContext =
    LaneTaskContext.of(TaskIdentity.of(context), context, threads)

  // ---- on threads

  /** Starts receiver and lanes; what they put out. */
  protected def startThreads(): Iterator[InternalRow]

  /** If it throws, nothing has begun. */
  protected def run(fed: FedLane): Unit = {
    val lane = new LocalLane(this, fed, newBody, bodySplit)
    running.add(lane)
    try lane.start()
    catch {
      case error: Throwable =>
        running.remove(lane)
        logWarning(error.getMessage)
        throw error
    }
  }

  /** Called by the receiver, after each row: remembers, now and then, the fullest moment of the queues. */
  private[lane] def received(rows: Long, queued: => Long): Unit =
    if ((rows & DirectTask.SampleMask) == 0) queuePeak = math.max(queuePeak, queued)

  /** Every lane has put out everything. */
  protected def endThreaded(stats: InletStats, lanes: Int): Unit = {
    home.endBatch(this, stats.routing)
    LaneAccumulators.merge(running.asScala.toSeq.map(_.counted), remote.counted, context, spec.onceMetrics)
    metrics("lanes").set(lanes)
    metrics("rowsIn") += stats.offered.sum
    metrics("busiestLaneRows") += stats.laneRows.max
    metrics("queuePeak").set(queuePeak)
  }

  // ---- on the task's own

  def beginDirect(lane: DirectLane): Unit

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

private object DirectTask {
  private val SampleMask = 1023L
}
