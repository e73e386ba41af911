package org.apache.spark.sql.laneshift.lane

import java.util.concurrent.{ConcurrentHashMap, CountDownLatch}

import scala.jdk.CollectionConverters._

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.memory.{MemoryConsumer, MemoryMode}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.state.{ElasticStateStoreProvider, SharedStateStore}
import org.apache.spark.sql.laneshift.body.{SharedPartition, StateBytes}
import org.apache.spark.sql.laneshift.conf.LaneshiftConf
import org.apache.spark.sql.laneshift.spec.{ElasticSpec, HandoffMode}

import laneshift.ids.LaneId
import laneshift.lane._
import laneshift.routing.Handoff

/** One elastic partition during one Spark task: receiver, lanes, emitter, and what the lanes share.
  *
  * Threads: the task's own thread is the emitter (`outputs`). With one lane it runs the lane as well, and there is no other
  * thread. Otherwise one thread receives and each lane has its own. Every thread ends before the task does, whatever happens
  * (design fact 17).
  */
private[laneshift] final class PartitionTask(
    override val spec: ElasticSpec,
    override val home: PartitionHome,
    override protected val start: BatchStart,
    override val context: TaskContext,
    sources: Seq[Iterator[UnsafeRow]],
    override protected val newBody: () => RDD[InternalRow],
    override protected val bodySplit: Partition,
    override protected val metrics: Map[String, SQLMetric],
    lanesElsewhere: PartitionTask => RemoteLanes
) extends SharedPartition
    with DirectTask {

  private val options = spec.options
  private val limits =
    InletLimits(options.maxLanes, options.queueBytes, options.remoteLanes, spec.queueTime)
  private val sharedThings = new ConcurrentHashMap[AnyRef, AnyRef]
  private val shardLocals = new ConcurrentHashMap[Long, IndexedSeq[_]]
  private val keptByOperator = new ConcurrentHashMap[Long, Long]
  private var settledHandoffs = 0L
  private var settledPauseNs = 0L

  /** Lanes whose commits make one commit of a store, once they are final. */
  @volatile private var committing = Seq.empty[Int]
  @volatile private var owners: Array[Int] = _
  private val begun = new CountDownLatch(1)
  private var emitter: Emitter = _

  override private[laneshift] val threads =
    new TaskThreads(s"partition ${home.index}", context, wakeAll, () => takesNoMore())

  /** In which order the lanes read the inputs. */
  val turns = new InputTurns(spec.inputs.size)

  val outlet = new Outlet[UnsafeRow](PartitionTask.OutletBytes, () => new UnsafeRowBlock)

  val inlet = new Inlet[UnsafeRow](
    limits,
    start.routing,
    start.lanes,
    () => new UnsafeRowBlock,
    () => home.nextHandoffId(),
    settled,
    startLane,
    idleIsDone = spec.handoff == HandoffMode.MidBatch
  )

  /** The scans that lanes make together, when the input has ended. */
  val endScans = new EndScans[StateBytes](
    limits.slots,
    () => committing,
    PartitionTask.ScanBytes,
    _.size
  )

  /** The task as others need to know it. */
  def identity: TaskIdentity = TaskIdentity.of(context)

  /** The numbers that lanes on other executors may have. */
  def remoteSlots: Range = options.maxLanes until limits.slots

  override val remote: RemoteLanes = if (remoteSlots.isEmpty) RemoteLanes.None else lanesElsewhere(this)

  beginTask()

  /** A task that takes only some of the rows succeeds all the same. Where Spark has committed by then, its lanes have to. */
  private def takesNoMore(): Unit = if (emitter != null && spec.commitsFirst) emitter.drain()

  // ---- outputs

  /** The partition's outputs, for the task's own thread. */
  lazy val outputs: Iterator[InternalRow] =
    if (start.lanes == 1 && !spec.isFixed)
      new DirectThenThreaded(this, spec, sources.head, newBody, bodySplit, context)
    else startThreads()

  override def directPartition: Option[SharedPartition] = Some(this)

  override def beginDirect(lane: DirectLane): Unit = {
    committing = Seq(0)
    owners = start.routing
    home.runningDirect(this, lane)
  }

  /** Starts receiver and lanes. */
  override protected def startThreads(): Iterator[InternalRow] = {
    owners = null
    committing = Nil
    emitter = new Emitter(spec.outputs.size, context, outlet.take, () => finish())
    (0 until start.lanes).foreach(i => startLane(LaneId(i)))
    remote.want(start.elsewhere)
    threads.start("receiver")(new Receiver(this, sources).run())
    home.running(this, inlet)
    emitter
  }

  /** Every lane has put out everything. */
  private def finish(): Unit = {
    threads.join()
    if (sharedThings.isEmpty)
      throw new IllegalStateException(
        s"The lanes of operator ${spec.key.operatorId} have not shared a state store: it was opened by another provider than " +
          s"${ElasticStateStoreProvider.className}. The batch is given up; start the query again, or with " +
          s"${LaneshiftConf.Enabled.key}=false."
      )
    sharedThings.values.asScala.foreach {
      case store: SharedStateStore => store.requireCommitted()
      case _ => ()
    }
    val stats = inlet.stats
    endThreaded(stats, if (spec.isFixed) participants else stats.activeLanes)
    metrics("handoffs") += settledHandoffs
    metrics("pauseTime") += settledPauseNs
  }

  // ---- lanes

  private def startLane(id: LaneId): Unit = {
    outlet.addProducer()
    try run(new QueuedLane(this, id))
    catch {
      case error: Throwable =>
        outlet.producerDone()
        throw error
    }
  }

  /** A lane's outputs, wherever it is: what it waits for room is no work. */
  private[laneshift] def putOut(lane: LaneId, block: UnsafeRowBlock): Unit = {
    val waitedNs = outlet.put(block)
    if (waitedNs > 0) inlet.waited(lane, waitedNs)
  }

  private def settled(handoff: Handoff): Unit = {
    synchronized {
      settledHandoffs += 1
      settledPauseNs += handoff.pauseNs
    }
    home.settled(handoff, spec.batchId)
  }

  /** Before the first row: where nothing moves within a batch, routing and lanes are fixed here, and an operator may end with the
    * first of several inputs.
    */
  def inputBegins(): Unit = if (spec.isFixed) {
    if (start.elsewhere.nonEmpty) remote.awaitOpen()
    val lanes = inlet.fix()
    remote.close()
    owners = if (start.elsewhere.isEmpty) start.routing else home.route(lanes)
    inlet.route(owners)
    committing = lanes
    begun.countDown()
  }

  /** Ends the input: from here on routing and lanes are fixed, and lanes may commit. */
  def inputEnded(): Unit = {
    inlet.finish { (routing, lanes) =>
      owners = routing
      committing = lanes
    }
    remote.close()
  }

  // ---- what lanes share

  override def participants: Int = committing.size

  override def routing: Array[Int] = {
    if (spec.isFixed) begun.await()
    // It has failed before its input began.
    if (spec.isFixed && owners == null && failure != null) throw new PartitionStopped(failure)
    val fixed = owners
    if (fixed != null) fixed else inlet.routing
  }

  override def failure: Throwable = threads.failure

  /** The task's own thread, where it runs the only lane, is asked for more itself. */
  override def awaitWanted(): Unit =
    if (emitter != null && !spec.commitsFirst) outlet.awaitWanted()

  /** As [[org.apache.spark.sql.laneshift.body.LaneContext.perShard]]. */
  def perShard[T](operatorId: Long, make: => T): IndexedSeq[T] =
    shardLocals.computeIfAbsent(
      operatorId,
      _ => Vector.fill(options.shards)(make)
    ).asInstanceOf[IndexedSeq[T]]

  override def keptBytes(operatorId: Long): Long =
    keptByOperator.computeIfAbsent(
      operatorId,
      _ => {
        val account = new KeptRows(context)
        val granted = account.acquireMemory(PartitionTask.KeptBytes)
        asTask(context.addTaskCompletionListener[Unit](_ => account.freeMemory(granted)))
        granted
      }
    )

  override def shared[T <: AnyRef](key: AnyRef)(open: => T): T =
    sharedThings.computeIfAbsent(
      key,
      _ => {
        if (failure != null) throw new PartitionStopped(failure)
        asTask(open)
      }
    ).asInstanceOf[T]

  override def sharedNow(key: AnyRef): Option[AnyRef] = Option(sharedThings.get(key))

  /** Opens what lanes share and the Spark task frees. */
  private def asTask[T](open: => T): T = {
    val opened = withTaskContext(open)
    threads.endBeforeTask()
    opened
  }

  override def withTaskContext[T](body: => T): T = {
    val before = TaskContext.get()
    TaskContext.setTaskContext(context)
    try body
    finally if (before == null) TaskContext.unset() else TaskContext.setTaskContext(before)
  }

  override def scanTogether(lane: LaneId, what: Any)(
      open: => ScanSource[StateBytes]
  ): EndScans[StateBytes]#Part = {
    val since = System.nanoTime()
    val part = endScans.begin(lane, what)(asTask(open))
    inlet.waited(lane, System.nanoTime() - since)
    part
  }

  // ---- ending

  /** Whoever waits for what will not come hears of it. */
  private def wakeAll(cause: Throwable): Unit = {
    inlet.fail(cause)
    outlet.fail(cause)
    endScans.fail(cause)
    turns.fail(cause)
    begun.countDown()
    remote.stop()
  }
}

private object PartitionTask {

  /** Outputs that may wait for the emitter. Little, because a lane that waits to put out cannot let a shard go: where the sink
    * is the bottleneck, this is what a handoff waits for.
    */
  private val OutletBytes = 64L * 1024

  /** State rows that may wait for one lane in a scan. */
  private val ScanBytes = 256L * 1024

  /** What one operator may keep in memory of all shards of a partition, if Spark grants it. */
  private val KeptBytes = 8L << 20
}

/** The account, in the Spark task's memory, of what operators keep of shards. It cannot be spilled: it is written out as the
  * operator goes on, and is small.
  */
private final class KeptRows(task: TaskContext)
    extends MemoryConsumer(task.taskMemoryManager(), MemoryMode.ON_HEAP) {
  override def spill(size: Long, trigger: MemoryConsumer): Long = 0L
}
