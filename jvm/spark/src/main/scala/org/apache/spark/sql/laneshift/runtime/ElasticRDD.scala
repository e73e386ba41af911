package org.apache.spark.sql.laneshift.runtime

import java.nio.ByteBuffer

import org.apache.spark.{OneToOneDependency, Partition, SparkEnv, TaskContext}
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.laneshift.body.LaneContext
import org.apache.spark.sql.laneshift.lane.{DealtTask, LaneCpu, PartitionTask, StockLane}
import org.apache.spark.sql.laneshift.remote.RemoteSessions
import org.apache.spark.sql.laneshift.spec.{ElasticSpec, HandoffMode}
import org.apache.spark.sql.laneshift.wire.RpcBytes

import laneshift.lane.CoreShare

/** One elastic operator of one batch: its partitions are Spark's state partitions, each computed by a [[PartitionTask]].
  *
  * @param inputs the shuffles
  * @param body what a lane runs; stays on the driver, where it keeps its broadcasts alive and knows preferred locations
  * @param bodyBytes the body for lanes, each of which reads a copy of its own: what it counts is its own then
  */
private[laneshift] final class ElasticRDD(
    @transient private val inputs: Seq[RDD[InternalRow]],
    @transient private val body: RDD[InternalRow],
    bodyBytes: Array[Byte],
    spec: ElasticSpec,
    metrics: Map[String, SQLMetric]
) extends RDD[InternalRow](inputs.head.sparkContext, inputs.map(new OneToOneDependency(_))) {

  private[laneshift] val laneCpu = LaneCpu.of(sparkContext)

  /** The task's own copy of the body, for its own thread. What it counts is the task's and no lane's, so no lane on another thread
    * may take it. A copy that is read with the task costs half of one that is read by itself, which 200 small partitions feel.
    */
  private val ofTask: Option[RDD[InternalRow]] =
    Option.when(spec.isFixed || spec.handoff == HandoffMode.Dealt)(body)

  override protected def getPartitions: Array[Partition] =
    Array.tabulate(body.getNumPartitions)(LaneSplit(_, body, inputs))

  /** Where Spark would compute the body: where its stores are. Functions may stand above these, so it is the scheduler that looks
    * for them, through all of the body. Who has no stores goes to the rows, as every RDD without a place of its own.
    */
  override protected def getPreferredLocations(split: Partition): Seq[String] =
    sparkContext.getPreferredLocs(body, split.index).map(_.toString)

  /** Lanes that have shards emit in the order in which they get to it. */
  override protected def getOutputDeterministicLevel: DeterministicLevel.Value =
    if (spec.handoff == HandoffMode.Dealt) super.getOutputDeterministicLevel
    else DeterministicLevel.UNORDERED

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val LaneSplit(_, bodySplit, splitBytes, inputSplits) = split.asInstanceOf[LaneSplit]
    val runtime = ElasticRuntime.get
    val partition = runtime.partition(spec, split.index, context)
    val asked =
      if (spec.realTime || !partition.isAuto) None
      else runtime.auto.begin(spec, split.index, dependencies.map(_.rdd), context)
    // Registered before what the batch and the operators register, and so run after: everything has been counted by then.
    context.addTaskCompletionListener[Unit](_ => runtime.computed(partition))
    val start = partition.startBatch(spec, context, asked)
    val meter = partition.newMeter()
    val sources = dependencies.indices.map { i =>
      val rows = CoreShare.waiting(parent[InternalRow](i).iterator(inputSplits(i), context))
      meter.input(i, if (CoreShare.worker.isEmpty) rows else new LendingIterator(rows))
    }
    def newBody(): RDD[InternalRow] =
      SparkEnv.get.closureSerializer.newInstance().deserialize[RDD[InternalRow]](ByteBuffer.wrap(bodyBytes))

    val rows = ofTask match {
      case Some(own) if spec.handoff == HandoffMode.Dealt =>
        new DealtTask(
          spec,
          partition,
          start,
          context,
          sources.head,
          own,
          newBody _,
          bodySplit,
          metrics
        ).outputs
      case Some(stock) if start.lanes == 1 && start.elsewhere.isEmpty =>
        // One lane for the whole batch: Spark's own path, on Spark's own thread and with Spark's own store.
        partition.stockBatch(context, meter.in, metrics) {
          LaneContext.within(new StockLane(sources))(stock.iterator(bodySplit, context))
        }
      case _ =>
        new PartitionTask(
          spec,
          partition,
          start,
          context,
          sources,
          newBody _,
          bodySplit,
          metrics,
          new RemoteSessions(_, bodyBytes, splitBytes, runtime.hostLanes.links, runtime.hostLanes.traffic)
        ).outputs
    }
    meter.output(rows)
  }
}

/** Rows for which a thread that works in turns may have to wait. */
private final class LendingIterator(rows: Iterator[InternalRow]) extends Iterator[InternalRow] {
  override def hasNext: Boolean = CoreShare.waiting(rows.hasNext)
  override def next(): InternalRow = rows.next()
}

/** A partition of [[ElasticRDD]] with the body's own and those of the inputs, which may carry more than an index.
  *
  * @param bytes the body's: executors pass it on to each other, and partitions of zipped RDDs can be written on the driver only
  */
private[laneshift] final case class LaneSplit(
    index: Int,
    body: Partition,
    bytes: Array[Byte],
    inputs: Seq[Partition]
) extends Partition

private[laneshift] object LaneSplit {
  def apply(index: Int, body: RDD[_], inputs: Seq[RDD[_]]): LaneSplit = {
    val split = body.partitions(index)
    LaneSplit(index, split, RpcBytes.of(split), inputs.map(_.partitions(index)))
  }
}
