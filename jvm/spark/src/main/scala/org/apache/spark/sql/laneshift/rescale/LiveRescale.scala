package org.apache.spark.sql.laneshift.rescale

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, MicroBatchExecutionContext}
import org.apache.spark.sql.internal.SQLConf

/** Where a rescale stands. */
private[laneshift] sealed abstract class RescaleState(val name: String, val ended: Boolean)

private[laneshift] object RescaleState {
  case object Waiting extends RescaleState("waiting", ended = false)
  case object Done extends RescaleState("done", ended = true)
  case object Cancelled extends RescaleState("cancelled", ended = true)
  case object Failed extends RescaleState("failed", ended = true)
}

/** Gives a running query another number of state partitions: docs/rescale.md. */
private[laneshift] final class LiveRescale(query: MicroBatchExecution, val from: Int, val to: Int)
    extends Logging {
  import RescaleState._

  @volatile private var now: RescaleState = Waiting
  @volatile private var why = Option.empty[String]
  @volatile private var pauseNs = 0L
  @volatile private var tookBatch = Option.empty[Long]

  def state: RescaleState = now

  /** Why it failed. */
  def failure: Option[String] = why

  /** For so long the query waited between two batches. */
  def pauseMs: Double = pauseNs / 1e6

  /** The batch that the take-over was. */
  def batch: Option[Long] = tookBatch

  /** False if it has ended before. */
  def cancel(): Boolean = synchronized {
    if (!now.ended) now = Cancelled
    now == Cancelled
  }

  /** On the query's thread, between batch `context.batchId - 1` and the next. Whatever goes wrong here leaves the query as it
    * was, unless it is the end of the query.
    */
  def atBoundary(context: MicroBatchExecutionContext): Option[Int] =
    if (now.ended) None
    else {
      val began = System.nanoTime()
      val checkpoint = new Checkpoint(
        query.resolvedCheckpointRoot,
        query.sparkSessionForStream.sessionState.newHadoopConf(),
        query.offsetLog,
        query.commitLog
      )
      val last = context.batchId - 1
      try {
        val session = LiveRescale.session(query.sparkSessionForStream, checkpoint, last)
        val twin = new Twin(checkpoint, session)
        val ids = twin.build(last, to)
        val batch = new TakeOver(checkpoint, twin).run(last, last, to, ids)
        goOn(context, batch, ids)
        tookBatch = Some(batch)
        pauseNs = System.nanoTime() - began
        end(Done, None)
        logInfo(s"Query ${query.id} has $to state partitions from batch ${batch + 1} on, after $from.")
        Some(to)
      } catch {
        case e if NonFatal(e) && query.isActive && !checkpoint.lastCommitted.exists(_ > last) =>
          TakeOver.undo(checkpoint)
          end(Failed, Some(e.toString))
          logWarning(s"Query ${query.id} keeps its $from state partitions.", e)
          None
      }
    }

  private def end(state: RescaleState, reason: Option[String]): Unit = synchronized {
    why = reason
    now = state
  }

  /** Lets Spark go on as if `batch` had been one of its own. */
  private def goOn(context: MicroBatchExecutionContext, batch: Long, ids: Twin.Ids): Unit = {
    ids.foreach(Inside.checkpointIds(query) ++= _)
    // Spark has asked there already what the watermark of this batch would be, and it has become the next one's.
    Inside.watermarks(query).purge(batch)
    context.offsetSeqMetadata = Checkpoint.withPartitions(context.offsetSeqMetadata, to)
    query.sparkSessionForStream.sessionState.conf
      .setConfString(SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL.key, to.toString)
    context.batchId = batch + 1
  }
}

private[rescale] object LiveRescale {

  /** One for jobs that read and write state: as many tasks as there are partitions, and files named as the checkpoint's. */
  def session(of: SparkSession, checkpoint: Checkpoint, batch: Long): SparkSession = {
    val session = of.cloneSession()
    val conf = session.sessionState.conf
    conf.setConfString(SQLConf.ADAPTIVE_EXECUTION_ENABLED.key, "false")
    conf.setConfString(
      SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key,
      checkpoint.commit(batch).version.toString
    )
    session
  }
}
