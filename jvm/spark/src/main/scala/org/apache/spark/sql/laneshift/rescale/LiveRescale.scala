package org.apache.spark.sql.laneshift.rescale

import java.util.UUID
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.locks.ReentrantLock

import scala.util.control.NonFatal

import org.apache.spark.JobExecutionStatus
import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, MicroBatchExecutionContext}
import org.apache.spark.sql.execution.streaming.state.{TwinStateStoreProvider, WriteRecord}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

/** Where a rescale stands: docs/rescale.md. */
private[laneshift] sealed abstract class RescaleState(val name: String, val ended: Boolean)

private[laneshift] object RescaleState {
  case object Waiting extends RescaleState("waiting", ended = false)
  case object Building extends RescaleState("building", ended = false)
  case object CatchingUp extends RescaleState("catching-up", ended = false)
  case object Ready extends RescaleState("ready", ended = false)
  case object TakingOver extends RescaleState("taking-over", ended = false)
  case object Done extends RescaleState("done", ended = true)
  case object Cancelled extends RescaleState("cancelled", ended = true)
  case object Failed extends RescaleState("failed", ended = true)
}

/** Gives a running query another number of state partitions. A thread of its own builds the twin and brings it up to the
  * query, and removes it if the query does not go over to it; the query's thread begins it, between two batches, and ends it,
  * between two others.
  *
  * @param before the run's last one, of which tasks may still be recording
  */
private[laneshift] final class LiveRescale(
    query: MicroBatchExecution,
    val from: Int,
    val to: Int,
    val budget: RescaleBudget,
    private var before: Option[LiveRescale]
) extends Logging {
  import LiveRescale._
  import RescaleState._

  private val context = query.sparkSession.sparkContext
  private val jobs = s"$JobGroup${query.runId} ${UUID.randomUUID()}"

  // `now` changes under this object's lock; the twin is used under its own.
  @volatile private var now: RescaleState = Waiting
  @volatile private var why = Option.empty[String]
  @volatile private var pauseNs = 0L
  @volatile private var tookBatch = Option.empty[Long]
  @volatile private var committed: Commits = _
  @volatile private var twin: Twin = _
  // The query's thread takes over.
  @volatile private var isTakingOver = false
  private val twinLock = new ReentrantLock
  // While it may be interrupted.
  private var worker = Option.empty[Thread]
  @volatile private var isRecorded = false
  private val isHeld = new AtomicBoolean(true)

  def state: RescaleState = now

  /** Why it failed. */
  def failure: Option[String] = why

  /** For so long the query waited between two batches. */
  def pauseMs: Double = pauseNs / 1e6

  /** The batch that the take-over was. */
  def batch: Option[Long] = tookBatch

  /** Stores that are written, and how many there will be. */
  def progress: (Int, Int) = Option(twin).fold((0, 0))(_.progress)

  /** Batches of the query that the new stores do not have yet. */
  def lag: Long = if (now.ended) 0L else Option(twin).fold(0L)(t => math.max(0L, committed.newest - t.state))

  /** For people. */
  def words: String = {
    val (written, stores) = progress
    val more = now match {
      case Building => s", $written of $stores new stores written"
      case CatchingUp | Ready if lag > 0 => s", $lag batches behind"
      case Done => f" as batch ${tookBatch.getOrElse(-1L)}%d; the query waited $pauseMs%.0f ms"
      case Failed => why.fold("")(": " + _)
      case _ => ""
    }
    s"From $from to $to state partitions: ${now.name}$more"
  }

  /** False if it is too late. */
  def cancel(): Boolean = {
    if (change(Cancelled, _ != TakingOver) && synchronized(worker.nonEmpty)) {
      // An application that ends has ended its jobs, and Spark refuses to be asked.
      if (!context.isStopped)
        Utils.tryLogNonFatalError(context.cancelJobGroupAndFutureJobs(jobs, "cancelled"))
      TakeOver.passed("jobs cancelled")
      synchronized(worker.foreach(_.interrupt()))
    }
    now == Cancelled
  }

  /** Unless it has ended. */
  private def change(state: RescaleState, if_ : RescaleState => Boolean = _ => true): Boolean = synchronized {
    val changes = !now.ended && if_(now)
    if (changes) now = state
    changes
  }

  /** Of a take-over only the query's thread says what came of it, as long as it is in it. */
  private def fail(e: Throwable): Unit = synchronized {
    val mayTell = now != TakingOver || !isTakingOver || (Thread.currentThread eq query.queryExecutionThread)
    if (!now.ended && mayTell) {
      why = Some(e.toString)
      now = Failed
      logWarning(s"Query ${query.id} keeps its $from state partitions.", e)
    }
  }

  /** On the query's thread, between batch `context.batchId - 1` and the next. Whatever goes wrong here leaves the query as it
    * was, unless it is the end of the query.
    */
  def atBoundary(next: MicroBatchExecutionContext): Option[Int] = {
    before.foreach(_.recordedNoMore())
    before = None
    if (!now.ended && committed != null)
      try committed.add(next.batchId - 1)
      catch { case NonFatal(e) => fail(e) }
    val taken = now match {
      case Waiting =>
        begin(next.batchId - 1)
        None
      case Ready if !TakeOver.held =>
        isTakingOver = true
        try if (change(TakingOver)) takeOver(next) else None
        finally isTakingOver = false
      case _ => None
    }
    if (now.ended) {
      record(None)
      recordedNoMore()
    }
    // A batch has ended that has loaded the new stores.
    if (tookBatch.exists(next.batchId > _ + 1)) letGo()
    taken
  }

  /** The batches whose tasks record for it have ended. */
  private def recordedNoMore(): Unit = {
    before.foreach(_.recordedNoMore())
    isRecorded = false
  }

  /** Lets the twin's stores go when the query has its own of what they hold, or is over, and those of partitions that it had. */
  def letGo(): Unit =
    if (now == Done && isHeld.compareAndSet(true, false)) {
      Utils.tryLogNonFatalError(twin.letGo())
      if (query.isActive) Utils.tryLogNonFatalError(twin.dropOld(query.runId, from))
    }

  /** From the next batch on the query's tasks record what they write. */
  private def record(folders: Option[(String, String)]): Unit = {
    context.setLocalProperty(WriteRecord.Folder, folders.map(_._1).orNull)
    context.setLocalProperty(WriteRecord.Stores, folders.map(_._2).orNull)
  }

  private def begin(last: Long): Unit =
    try {
      // Readers of another thread: the query's own logs are its thread's.
      val checkpoint = Checkpoint.at(query.resolvedCheckpointRoot, query.sparkSessionForStream)
      val made = new Twin(checkpoint, session(query.sparkSessionForStream, checkpoint, last), to, budget)
      committed = new Commits(checkpoint, last)
      Twin.removeAll(checkpoint)
      twin = made
      isRecorded = true
      checkpoint.fs.mkdirs(made.records)
      record(Some(made.records.toString -> checkpoint.stateRoot.toString))
      val thread = new Thread(() => work(), jobs)
      thread.setDaemon(true)
      synchronized {
        if (change(Building)) {
          worker = Some(thread)
          thread.start()
        }
      }
    } catch { case NonFatal(e) if query.isActive => fail(e) }

  private def work(): Unit =
    try {
      context.setJobGroup(jobs, s"State of query ${query.id} for $to partitions", interruptOnCancel = true)
      onTwin(twin.build(committed, staysOpen = true))
      change(CatchingUp)
      val rounds = new CatchUpRounds
      // In a take-over the query's thread has its own jobs; this one waits for what comes of it.
      while (!now.ended && (query.isActive || isTakingOver)) {
        // Once it is ready the next boundary takes over, and would have to wait for a round.
        if (now != TakingOver && (now != Ready || TakeOver.held)) {
          val (began, batches) = (System.nanoTime(), lag)
          if (batches > 0) onTwin(if (now != TakingOver) twin.catchUp(committed))
          if (rounds.isNear(batches, System.nanoTime() - began)) change(Ready, _ == CatchingUp)
        }
        Thread.sleep(IdleMs)
      }
      if (!now.ended) fail(new IllegalStateException("the query has ended"))
    } catch {
      case e: Throwable => fail(e)
    } finally {
      synchronized { worker = None }
      Thread.interrupted()
      if (now != Done) Utils.tryLogNonFatalError(clear())
    }

  /** Removes the twin, and again what is written to it late: by tasks that were cancelled, and by the query's batch of now, whose
    * tasks still record. Nothing interrupts this.
    */
  private def clear(): Unit = {
    Utils.tryLogNonFatalError(twin.letGo())
    removeUnlessWritten(jobs)
    while (isRecorded && query.isActive) Thread.sleep(LookMs)
    removeUnlessWritten(if (isRecorded) query.runId.toString else jobs)
  }

  /** Returns when no task of these jobs is left and the twin has been away for some time. */
  private def removeUnlessWritten(group: String): Unit = {
    val deadline = System.nanoTime() + ClearNs
    var looks = 0
    while (looks < AwayLooks && System.nanoTime() < deadline) {
      if (hasTasks(group)) looks = 0
      else if (twin.isThere) {
        twin.remove()
        looks = 0
      } else looks += 1
      Thread.sleep(LookMs)
    }
    if (twin.isThere) twin.remove()
  }

  /** False if the application has ended. */
  private def hasTasks(group: String): Boolean =
    try {
      val tracker = context.statusTracker
      tracker.getJobIdsForGroup(group).flatMap(tracker.getJobInfo(_)).exists { job =>
        job.status == JobExecutionStatus.RUNNING ||
        job.stageIds.flatMap(tracker.getStageInfo(_)).exists(_.numActiveTasks > 0)
      }
    } catch { case NonFatal(_) => false }

  private def onTwin[T](body: => T): T = {
    twinLock.lockInterruptibly()
    try body
    finally twinLock.unlock()
  }

  private def takeOver(next: MicroBatchExecutionContext): Option[Int] = {
    val began = System.nanoTime()
    val last = next.batchId - 1
    val checkpoint = new Checkpoint(
      query.resolvedCheckpointRoot,
      query.sparkSessionForStream.sessionState.newHadoopConf(),
      query.offsetLog,
      query.commitLog
    )
    try onTwin {
        twin.catchUp(committed, RealTimeSlots.hurried(query, from, context), hurried = true)
        TakeOver.passed("caught up")
        val ids = twin.checkpointIds
        val takingOver = new TakeOver(checkpoint, twin)
        val batch =
          try takingOver.run(last, to)
          catch {
            case e if NonFatal(e) && takingOver.isComplete(last + 1) =>
              logWarning("The take-over is complete, but for this.", e)
              last + 1
          }
        goOn(next, batch, ids)
        Utils.tryLogNonFatalError(twin.passOn(query.runId))
        tookBatch = Some(batch)
        pauseNs = System.nanoTime() - began
        change(Done)
        logInfo(
          f"Query ${query.id} has $to state partitions from batch ${batch + 1} on, after $from; it waited $pauseMs%.0f ms."
        )
        Some(to)
      }
    catch {
      case e if NonFatal(e) && query.isActive =>
        TakeOver.undo(checkpoint)
        fail(e)
        None
    }
  }

  /** Lets Spark go on as if `batch` had been one of its own. */
  private def goOn(next: MicroBatchExecutionContext, batch: Long, ids: Twin.Ids): Unit = {
    ids.foreach(Inside.checkpointIds(query) ++= _)
    // Spark has asked there already what the watermark of this batch would be, and it has become the next one's.
    Inside.watermarks(query).purge(batch)
    next.offsetSeqMetadata = Checkpoint.withPartitions(next.offsetSeqMetadata, to)
    query.sparkSessionForStream.sessionState.conf
      .setConfString(SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL.key, to.toString)
    next.batchId = batch + 1
  }
}

private[laneshift] object LiveRescale {

  /** The group of the jobs beside a query has its run's id behind this. */
  val JobGroup = "laneshift rescale "

  private val IdleMs = 20L

  /** A twin that was looked for so often, so far apart, and was away, stays away. */
  private val AwayLooks = 5
  private val LookMs = 100L

  /** A task that was cancelled for so long is not waited for. */
  private val ClearNs = 60000000000L

  /** One for jobs that read and write state: with what the checkpoint's last batch was written with, files named as its, as
    * many tasks as there are partitions, and whole snapshots only.
    */
  def session(of: SparkSession, checkpoint: Checkpoint, batch: Long): SparkSession = {
    val session = of.cloneSession()
    val conf = session.sessionState.conf
    checkpoint.offsets(batch).metadataOpt.foreach(OffsetSeqMetadata.setSessionConf(_, conf))
    conf.setConfString(SQLConf.STATE_STORE_PROVIDER_CLASS.key, classOf[TwinStateStoreProvider].getName)
    conf.setConfString(SQLConf.ADAPTIVE_EXECUTION_ENABLED.key, "false")
    conf.setConfString(
      SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key,
      checkpoint.commit(batch).version.toString
    )
    conf.setConfString("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "false")
    session
  }
}
