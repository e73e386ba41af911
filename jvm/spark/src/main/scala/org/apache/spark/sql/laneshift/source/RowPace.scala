package org.apache.spark.sql.laneshift.source

import java.util.concurrent.atomic.{AtomicLong, AtomicReference}

/** Counts the rows of one reader of a Real-time query and says, while the query's source is held back, when the next may come.
  * Only the reader's thread may call it, except for [[rows]].
  *
  * @param limit of the whole source; null without one
  * @param readers readers that share the limit, each an equal part of it
  * @param clock of the limit's end, in nanoseconds
  */
private[laneshift] final class RowPace(
    limit: AtomicReference[SourceLimit],
    readers: Int,
    clock: () => Long = () => System.nanoTime()
) {
  import RowPace._

  private val count = new AtomicLong
  private var allowance = 0.0 // rows that may come at once
  private var since = 0L

  /** Rows that came so far. */
  def rows: Long = count.get()

  /** A row comes. */
  def came(): Unit = count.lazySet(count.getPlain + 1)

  def isFree: Boolean = limit.get() == null

  /** Microseconds from `now` (since 1970) until a row may come; 0: it may now, and has to. */
  def ask(now: Long): Long = limit.get() match {
    case null => 0L
    case over if over.isOver(clock()) =>
      limit.compareAndSet(over, null)
      0L
    case SourceLimit(rate, _) =>
      val perMicro = rate / readers / 1e6
      allowance = Math.min(1.0 + Slack * perMicro, allowance + (now - since) * perMicro)
      since = now
      if (allowance >= 1.0) {
        allowance -= 1.0
        0L
      } else if (perMicro > 0) Math.ceil(Math.min((1.0 - allowance) / perMicro, Longest)).toLong
      else Longest.toLong
  }
}

private[laneshift] object RowPace {

  /** Microseconds that a reader which woke up late may catch up. */
  private val Slack = 20000.0

  /** Microseconds: a day. */
  private val Longest = 86400e6

  /** The pace of a reader of a query's run; without one, nobody limits it. */
  def of(runId: Option[String], partition: Int, readers: Int): RowPace =
    runId.fold(new RowPace(new AtomicReference, readers))(SourceRuns.pace(_, partition, readers))
}
