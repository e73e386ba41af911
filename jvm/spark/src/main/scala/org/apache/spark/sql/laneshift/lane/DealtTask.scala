package org.apache.spark.sql.laneshift.lane

import java.util.concurrent.atomic.AtomicReference

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.{InputFileBlockHolder, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.laneshift.body.SharedPartition
import org.apache.spark.sql.laneshift.spec.ElasticSpec

import laneshift.ids.LaneId
import laneshift.lane.{DealLimits, Deals, DealWork}

/** One partition of a stage without state during one Spark task: its rows are dealt to lanes, and outputs go on in the order of
  * the rows (docs/handoff.md, section 12). A lane on the task's thread takes its `own` copy of the body, others have each a new one.
  *
  * Threads: the task's own thread is the emitter. With one lane it runs the lane as well, and there is no other thread.
  * Otherwise one thread receives and each lane has its own. Every thread ends before the task does.
  */
private[laneshift] final class DealtTask(
    override val spec: ElasticSpec,
    override val home: PartitionHome,
    override protected val start: BatchStart,
    override val context: TaskContext,
    source: Iterator[UnsafeRow],
    own: RDD[InternalRow],
    override protected val newBody: () => RDD[InternalRow],
    override protected val bodySplit: Partition,
    override protected val metrics: Map[String, SQLMetric]
) extends DirectTask {
  private[lane] val deals = new Deals[UnsafeRow](
    DealLimits(spec.options.maxLanes, spec.options.queueBytes, DealtTask.OutputBytes, spec.queueTime),
    if (spec.readsAhead) DealWork.ahead(if (spec.realTime) DealtTask.LingerNs else DealWork.Forever)
    else DealWork.RowByRow,
    start.lanes,
    () => new UnsafeRowBlock,
    lane => run(new DealtLane(this, lane)),
    before = start.deals
  )
  override private[lane] val threads = new TaskThreads(s"partition ${home.index}", context, deals.fail)

  /** Rows of a stage without state stay on this executor. */
  override def remote: RemoteLanes = RemoteLanes.None
  override def directPartition: Option[SharedPartition] = None

  beginTask()

  /** The partition's outputs, for the task's own thread. */
  lazy val outputs: Iterator[InternalRow] =
    if (start.lanes == 1 && !swallows)
      new DirectThenThreaded(this, spec, source, () => own, bodySplit, context)
    else startThreads()

  /** Functions that read ahead take in all that there is, minutes of work, before they push back: until then nobody could tell that
    * they are behind, and whatever was asked of the lane would wait for all of it. A batch of Real-time Mode may be as long.
    */
  private def swallows: Boolean = spec.readsAhead && spec.realTime

  override def beginDirect(lane: DirectLane): Unit = home.runningDirect(this, lane)

  override protected def startThreads(): Iterator[InternalRow] = {
    (0 until start.lanes).foreach(i => run(new DealtLane(this, LaneId(i))))
    val file = DealtTask.file()
    val begun = file.get
    threads.start("receiver")(receive(begun))
    home.running(this, deals)
    // What is above asks for the file of the row that it has.
    def take(pollMs: Long, whileIdle: () => Unit) = {
      val block = deals.emit(pollMs, whileIdle)
      block.foreach(b => file.set(b.origin))
      block
    }
    new Emitter(spec.outputs.size, context, take, () => finish())
  }

  /** @param begun the file that the source is at */
  private def receive(begun: AnyRef): Unit = {
    TaskContext.setTaskContext(context)
    // The thread has inherited the task's place for it, which is the emitter's from now on.
    InputFileBlockHolder.unset()
    DealtTask.file().set(begun)
    var rows = 0L
    // By now the source has registered what it frees at the task's end.
    if (source.hasNext) threads.endBeforeTask()
    while (source.hasNext) {
      deals.offer(source.next(), DealtTask.file().get)
      rows += 1
      received(rows, deals.bufferedBytes)
    }
    deals.finish()
  }

  /** Every lane has put out everything. */
  private def finish(): Unit = {
    InputFileBlockHolder.unset()
    threads.join()
    val stats = deals.stats
    endThreaded(stats, stats.activeLanes)
  }
}

private object DealtTask {

  /** Where Spark has the file that the current thread reads: an object of its own for each. */
  private def file(): AtomicReference[AnyRef] =
    InputFileBlockHolder.getThreadLocalValue().asInstanceOf[AtomicReference[AnyRef]]

  /** Outputs that may wait for those before them. */
  private val OutputBytes = 4L << 20

  /** In Real-time Mode, how long rows stay in operators that read ahead (Python's) while no more come. */
  private val LingerNs = 20000000L
}
