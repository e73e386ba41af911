package org.apache.spark.sql.laneshift.lane

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicReference

import scala.jdk.CollectionConverters._

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.laneshift.body.{LaneContext, ShardOfHash}
import org.apache.spark.sql.laneshift.conf.LaneshiftConf
import org.apache.spark.sql.laneshift.runtime.ElasticPartition
import org.apache.spark.sql.laneshift.spec.{ElasticSpec, HandoffMode}

import laneshift.ids.LaneId
import laneshift.lane._
import laneshift.routing.Handoff
import laneshift.testing.{Fault, Faults}

/** One elastic partition during one Spark task: receiver, lanes, emitter, and the state stores that the lanes share.
  *
  * Threads: the task's own thread is the emitter (`outputs`). With one lane it runs the lane as well, and there is no other
  * thread. Otherwise one thread receives and one runs each lane. Every thread ends before the task does, whatever happens
  * (design fact 17): `stopAndJoin` is registered with the task again after each thing that lanes use and the task frees.
  */
private[sql] final class PartitionTask(
    val spec: ElasticSpec,
    val home: ElasticPartition,
    val context: TaskContext,
    sources: Seq[Iterator[InternalRow]],
    newBody: () => RDD[InternalRow],
    bodySplit: Partition,
    metrics: Map[String, SQLMetric]
) extends Logging {

  private val options = spec.options
  private val limits = InletLimits(options.maxLanes, options.queueBytes)
  private val start = home.startBatch(this)
  private val stores = new ConcurrentHashMap[StateStoreId, SharedStateStore]
  private val shardLocals = new ConcurrentHashMap[Long, IndexedSeq[_]]
  private val stopped = new AtomicReference[Throwable]
  private val threads = new java.util.concurrent.ConcurrentLinkedQueue[Thread]
  private val runners = new java.util.concurrent.ConcurrentLinkedQueue[LaneRunner]
  private var settledHandoffs = 0L
  private var settledPauseNs = 0L
  private var queuePeak = 0L

  private val fixed = spec.handoff == HandoffMode.BetweenBatches

  /** Lanes whose commits make one commit of a store; final once the input has ended. */
  @volatile private var participants = 0
  @volatile private var owners: Array[Int] = _
  private var emitter: Emitter = _

  /** In which order the lanes read the inputs. */
  val turns = new InputTurns(spec.inputs.size)

  val outlet = new Outlet[UnsafeRowBlock](PartitionTask.OutletBytes, _.bytes)

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
    options.maxLanes,
    () => participants,
    PartitionTask.ScanBytes,
    _.size
  )

  registerStop()

  /** Has to be called again after registering anything that frees what lanes use: listeners run last in, first out. */
  private def registerStop(): Unit = {
    context.addTaskFailureListener((_: TaskContext, error: Throwable) => stopAndJoin(error))
    context.addTaskCompletionListener[Unit] { _ =>
      // A task that takes only some of the rows succeeds all the same, and then its lanes have to commit.
      if (stopped.get == null && emitter != null && !Faults.isOn(Fault.NotDrained)) emitter.drain()
      stopAndJoin(new InterruptedException("the task is over"))
    }
  }

  // ---- emitter

  /** The partition's outputs, for the task's own thread. */
  lazy val outputs: Iterator[InternalRow] =
    if (start.lanes == 1 && !fixed) new DirectThenThreaded else new Emitter

  /** Runs the only lane on this thread; goes over to threads once another lane is wanted. */
  private final class DirectThenThreaded extends Iterator[InternalRow] {
    private val lane = new DirectLane(PartitionTask.this, sources.head)
    private var threaded = false
    private var over = false
    private var now: Iterator[InternalRow] = {
      participants = 1
      owners = start.routing
      home.runningDirect(lane)
      LaneContext.within(lane)(newBody().iterator(bodySplit, context))
    }

    override def hasNext: Boolean =
      if (over || now.hasNext) !over
      else if (threaded) end()
      else if (lane.isRestarting) {
        threaded = true
        metrics("rowsIn") += lane.rows
        StateStoreTracking.clear()
        LaneAccumulators.forgetSeal(context, spec.onceMetrics)
        now = new Emitter
        now.hasNext || end()
      } else {
        home.endBatch(PartitionTask.this, start.routing)
        metrics("lanes").set(1)
        metrics("rowsIn") += lane.rows
        metrics("busiestLaneRows") += lane.rows
        end()
      }

    private def end(): Boolean = {
      over = true
      false
    }

    override def next(): InternalRow = now.next()
  }

  /** Starts receiver and lanes, and gives what the lanes put out. */
  private final class Emitter extends Iterator[InternalRow] {
    private val row = new UnsafeRow(spec.outputs.size)
    private var block: UnsafeRowBlock = _
    private var at = 0
    private var done = false

    // Where nothing moves within a batch, an operator may end with the first of several inputs.
    participants = if (fixed && !Faults.isOn(Fault.OpenUntilLastInput)) start.lanes else 0
    owners = if (fixed) start.routing else null
    emitter = this
    (0 until start.lanes).foreach(i => startLane(LaneId(i)))
    startThread("receiver", new Receiver(PartitionTask.this, sources))
    home.running(inlet)

    override def hasNext: Boolean = {
      while (!done && (block == null || at >= block.size))
        outlet.take(PartitionTask.PollMs, () => context.killTaskIfInterrupted()) match {
          case Some(next) =>
            block = next
            at = 0
          case None =>
            done = true
            finish()
        }
      !done
    }

    override def next(): InternalRow = {
      if (!hasNext) throw new NoSuchElementException("no more outputs")
      block.read(at, row)
      at += 1
      row
    }

    def drain(): Unit = while (hasNext) at = block.size
  }

  private def finish(): Unit = {
    threads.forEach(_.join())
    if (stores.isEmpty)
      throw new IllegalStateException(
        s"The lanes of operator ${spec.key.operatorId} have not shared a state store: it was opened by another provider than " +
          s"${ElasticStateStoreProvider.className}. The batch is given up; start the query again, or with " +
          s"${LaneshiftConf.Enabled.key}=false."
      )
    val stats = inlet.stats
    home.endBatch(this, stats.routing)
    LaneAccumulators.merge(runners.asScala.toSeq.map(_.laneContext), context, spec.onceMetrics)
    metrics("lanes").set(stats.activeLanes)
    metrics("rowsIn") += stats.offered.sum
    metrics("busiestLaneRows") += stats.laneRows.max
    metrics("handoffs") += settledHandoffs
    metrics("pauseTime") += settledPauseNs
    metrics("queuePeak").set(queuePeak)
  }

  // ---- lanes

  private def startLane(lane: LaneId): Unit = {
    val runner = new LaneRunner(this, lane, newBody, bodySplit)
    runners.add(runner)
    outlet.addProducer()
    startThread(s"lane ${lane.value}", runner)
  }

  private def startThread(role: String, work: Runnable): Unit = {
    val name = s"laneshift $role of partition ${home.index} (${Thread.currentThread().getName})"
    val loader = Thread.currentThread().getContextClassLoader
    val thread = new Thread(
      () =>
        try work.run()
        catch { case error: Throwable => fail(error) },
      name
    )
    thread.setDaemon(true)
    thread.setContextClassLoader(loader)
    threads.add(thread)
    thread.start()
  }

  private def settled(handoff: Handoff): Unit = {
    synchronized {
      settledHandoffs += 1
      settledPauseNs += handoff.pauseNs
    }
    home.settled(handoff, spec.batchId)
  }

  /** Called by the receiver once per block: remembers the fullest moment of the queues. */
  def noteQueued(bytes: Long): Unit = if (bytes > queuePeak) queuePeak = bytes

  /** Ends the input: from here on routing and lanes are fixed, and lanes may commit. */
  def inputEnded(): Unit = inlet.finish { (routing, lanes) =>
    owners = routing
    participants = lanes
  }

  /** The lane of each shard: as it is now or, once the input has ended, for good. Not to be changed. */
  def routing: Array[Int] = {
    val fixed = owners
    if (fixed != null) fixed else inlet.routing
  }

  /** What an operator keeps of each shard, for the lane that owns the shard; see [[LaneContext.perShard]]. */
  def perShard[T](operatorId: Long, make: => T): IndexedSeq[T] =
    shardLocals.computeIfAbsent(
      operatorId,
      _ => Vector.fill(options.shards)(make)
    ).asInstanceOf[IndexedSeq[T]]

  def commitParticipants: Int = participants

  /** Why the partition has stopped, or null. */
  def failure: Throwable = stopped.get

  // ---- state stores

  /** The one store that the lanes share, opened by whoever comes first, as the task's own (design, State). */
  def sharedStore(id: StateStoreId)(open: => SharedStateStore): SharedStateStore =
    stores.computeIfAbsent(
      id,
      _ => {
        if (stopped.get != null) throw new PartitionStopped(stopped.get)
        asTask(open)
      }
    )

  /** Opens what lanes share and the Spark task frees. */
  def asTask[T](open: => T): T = {
    val opened = withTaskContext(open)
    registerStop()
    opened
  }

  /** Runs `body` as the Spark task itself: what it registers with the task context ends with the task. */
  def withTaskContext[T](body: => T): T = {
    val before = TaskContext.get()
    TaskContext.setTaskContext(context)
    try body
    finally if (before == null) TaskContext.unset() else TaskContext.setTaskContext(before)
  }

  // ---- ending

  /** A thread of this partition failed: the task fails with its cause. */
  def fail(error: Throwable): Unit = error match {
    case _: PartitionStopped => ()
    case _ =>
      if (stopped.compareAndSet(null, error)) {
        inlet.fail(error)
        outlet.fail(error)
        endScans.fail(error)
      }
  }

  /** Ends every thread and waits for it. Nothing that lanes use may be freed before. */
  private def stopAndJoin(cause: Throwable): Unit = {
    home.abandon(this)
    stopped.compareAndSet(null, cause)
    inlet.fail(cause)
    outlet.fail(cause)
    endScans.fail(cause)
    // One of our own threads comes here if the task is over already: the task's thread then waits for it and the others.
    if (!threads.contains(Thread.currentThread())) {
      // Whoever can end by itself may: an interrupt in the middle of loading a class can spoil it for all later tasks.
      val patience = System.nanoTime() + PartitionTask.PatienceNs
      val all = threads.asScala.toSeq
      val interrupted = all.map(join(_, patience)) ++ { all.foreach(_.interrupt()); all.map(joinFully) }
      if (interrupted.contains(true)) Thread.currentThread().interrupt()
    }
  }

  /** Waits for the thread until `deadline`; true if this thread was interrupted meanwhile. */
  private def join(thread: Thread, deadline: Long): Boolean = {
    var interrupted = false
    while (thread.isAlive && System.nanoTime() < deadline)
      try thread.join(1L + (deadline - System.nanoTime()) / 1000000L)
      catch { case _: InterruptedException => interrupted = true }
    interrupted
  }

  /** Waits for the thread whatever it takes; true if this thread was interrupted meanwhile. */
  private def joinFully(thread: Thread): Boolean = {
    var interrupted = false
    while (thread.isAlive) {
      interrupted |= join(thread, System.nanoTime() + PartitionTask.WarningNs)
      if (thread.isAlive) {
        val where = thread.getStackTrace.take(8).mkString("\n  at ", "\n  at ", "")
        logWarning(s"Still waiting for '${thread.getName}' to end; the task cannot end before it.$where")
        thread.interrupt()
      }
    }
    interrupted
  }
}

private[laneshift] object PartitionTask {

  /** How often the emitter looks whether its task was killed, while no output comes. */
  private val PollMs = 100L

  /** How long threads that are to end have before they are interrupted, and before there is a warning. */
  private val PatienceNs = 1000000000L
  private val WarningNs = 10000000000L

  /** Outputs that may wait for the emitter. Little, because a lane that waits to put out cannot let a shard go: where the sink
    * is the bottleneck, this is what a handoff waits for.
    */
  private val OutletBytes = 64L * 1024

  /** State rows that may wait for one lane in a scan. */
  private val ScanBytes = 256L * 1024
}

/** Reads the partition's inputs, one after the other, and sends each row to its shard's lane. */
private[lane] final class Receiver(task: PartitionTask, sources: Seq[Iterator[InternalRow]])
    extends Runnable {
  private val inputs = task.spec.inputs
  private val shards = new ShardOfHash(task.spec.partitions, task.spec.options.shards)
  private val motion = task.home.receiverMotion(task.spec)
  private var rows = 0L

  override def run(): Unit = task.withTaskContext {
    inputs.indices.foreach { turn =>
      if (turn > 0) task.inlet.nextInput()
      read(task.turns.await(turn))
    }
    task.inputEnded()
  }

  private def read(index: Int): Unit = {
    val source = sources(index)
    val hash = inputs(if (Faults.isOn(Fault.RightByLeftHash)) 0 else index).hash
    val hashOf = UnsafeProjection.create(Seq(hash))
    while (source.hasNext) {
      val row = source.next().asInstanceOf[UnsafeRow]
      task.inlet.offer(row, shards(hashOf(row).getInt(0)))
      rows += 1
      if ((rows & Receiver.SampleMask) == 0) task.noteQueued(task.inlet.bufferedBytes)
      if (motion != null) motion.afterRow(rows, task.inlet)
    }
  }
}

private[lane] object Receiver {
  private val SampleMask = 1023L
}
