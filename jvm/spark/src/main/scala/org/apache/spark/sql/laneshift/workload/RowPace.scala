package org.apache.spark.sql.laneshift.workload

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.laneshift.control.{SourceLimit, SourceLimits}

/** When the next row of one reader may come while a scheduler holds its query's source back. Times in microseconds since 1970.
  *
  * @param limit of the whole source now; null without one
  * @param readers readers that share a limit in rows per second
  */
private[workload] final class RowPace(limit: () => SourceLimit, readers: Int) {
  import RowPace._

  private var last = Long.MinValue // when the last row was allowed
  private var inForce: SourceLimit = _
  private var interval = 0L // between two rows, under the limit in force
  private var counted = 0L
  private var since = Long.MinValue
  private var rate = Double.NaN // rows per second that this reader gave lately; NaN: not known yet

  def isFree: Boolean = limit() == null

  /** Rows that came since the last call, at `now` as far as the reader knows: what a share is of. */
  def came(rows: Int, now: Long): Unit = {
    counted += rows
    if (since == Long.MinValue) {
      since = now
      counted = 0
    } else if (now - since >= Window) {
      rate = counted * 1e6 / (now - since)
      counted = 0
      since = now
    }
  }

  /** Not before this time, which a change of the limit changes. */
  def next(now: Long): Long = {
    val found = limit()
    if (found == null || (found.relative && rate.isNaN)) Long.MinValue
    else {
      if (found ne inForce) {
        inForce = found
        interval = intervalOf(if (found.relative) found.rate * rate else found.rate / readers)
      }
      if (interval == Long.MaxValue) Long.MaxValue else Math.max(last, now - Slack) + interval
    }
  }

  /** A row comes that was allowed at `allowed`. */
  def taken(allowed: Long): Unit = last = allowed
}

private[workload] object RowPace {

  /** What a reader that woke up late may catch up. */
  private val Slack = 20000L

  /** Over so long a reader's own rate is measured. */
  private val Window = 500000L

  private def intervalOf(rate: Double): Long = if (rate <= 0) Long.MaxValue else (1e6 / rate).toLong

  /** By query id and partition: a batch's readers go on from those of the batch before. */
  private val paces = new ConcurrentHashMap[(String, Int), RowPace]

  /** The pace of the task that calls this. */
  def ofTask(readers: Int): RowPace =
    Option(TaskContext.get()).filter(_.getLocalProperty(StreamExecution.QUERY_ID_KEY) != null) match {
      case None => new RowPace(() => null, readers)
      case Some(task) =>
        val query = task.getLocalProperty(StreamExecution.QUERY_ID_KEY)
        paces.computeIfAbsent(
          (query, task.partitionId()),
          _ => new RowPace(() => SourceLimits.of(query), readers)
        )
    }
}
