package org.apache.spark.sql.laneshift.driver

import org.apache.spark.sql.connector.read.streaming.{
  CompositeReadLimit,
  ReadLimit,
  ReadMaxRows,
  SparkDataStream
}
import org.apache.spark.sql.execution.streaming.{ProcessingTimeTrigger, RealTimeTrigger}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.laneshift.runtime.Applied
import org.apache.spark.sql.laneshift.source.PacedSource

/** Holds back the source of a running query. In Real-time Mode its readers wait, which only the sources of laneshift can do. In
  * micro-batch the next batches read fewer rows, as by `maxOffsetsPerTrigger`: Spark asks a source with the limit that it keeps
  * for it, and the sources of laneshift and Kafka take one of rows. In Spark's package because what a query reads its sources with
  * is private to it.
  */
private[laneshift] object SourceThrottle {

  /** To `rate` rows per second at most, for `seconds`; 0 seconds end a limit in force. Left: why it cannot be held back. */
  def limit(
      run: Run,
      executors: ExecutorDirectory,
      rate: Double,
      seconds: Double
  ): Either[String, Applied] =
    run.execution.toRight("it has just stopped").flatMap { query =>
      limits(query).toSeq match {
        case Seq((_: PacedSource, _)) if realTime(query) =>
          executors.limitSource(run.runId, rate, seconds)
          Right(Applied.Now)
        case Seq((source, _)) if !realTime(query) && takesRows(source) =>
          hold(run, query, source, rate, seconds)
          Right(Applied.NextBatch)
        case Seq((source, _)) if realTime(query) =>
          Left(s"in Real-time Mode only laneshift-workload, -replay and -nexmark can wait, not $source")
        case Seq((source, _)) =>
          Left(s"in micro-batch only Kafka, laneshift-workload, -replay and -nexmark can, not $source")
        case several => Left(s"it has ${several.size} sources, and which of them to hold is not known")
      }
    }

  private def realTime(query: StreamExecution) = query.trigger.isInstanceOf[RealTimeTrigger]

  private def takesRows(source: SparkDataStream) =
    source.isInstanceOf[PacedSource] || source.getClass.getSimpleName == "KafkaMicroBatchStream"

  private def hold(
      run: Run,
      query: StreamExecution,
      source: SparkDataStream,
      rate: Double,
      seconds: Double
  ): Unit = run.synchronized {
    val before = run.heldSource
    // Under the lock: what another limit, which ends just now, has set is not the source's own.
    val now = limits(query)(source)
    val untilNs = run.nowNs() + (seconds * 1e9).toLong
    if (seconds > 0) {
      // The batch that runs may have read its rows; the limit is for a whole one.
      val next = lastBatch(query) + 2
      val (own, first) = before.fold((now, next))(b => (b.own, b.first))
      run.hold(Some(HeldSource(query, source, own, rate, untilNs, first, next)))
    } else before.foreach(b => run.hold(Some(b.copy(untilNs = untilNs))))
    update(run)
  }

  private def lastBatch(query: StreamExecution) = Option(query.lastProgress).fold(-1L)(_.batchId)

  /** What the run's next batch may read by what is known by now; after each batch and once a second. Limits in force stay with a
    * query that ends.
    */
  private[driver] def update(run: Run): Unit = run.synchronized(run.heldSource.foreach { h =>
    val over = run.nowNs() - h.untilNs >= 0 && lastBatch(h.query) >= h.last
    if (over) run.hold(None)
    val rows = Math.max(1L, (h.rate * secondsPerBatch(h)).toLong)
    setLimits(h.query, Map(h.source -> (if (over) h.own else ReadLimit.maxRows(least(h.own, rows)))))
  })

  private def secondsPerBatch(h: HeldSource): Double = {
    val interval = h.query.trigger match {
      case ProcessingTimeTrigger(ms) => ms
      case _ => 0L
    }
    val took = h.query.recentProgress.toSeq
      .filter(p => p.batchId >= h.first && p.numInputRows > 0)
      .flatMap(p => Option(p.durationMs.get("triggerExecution")).map(_.longValue))
    msPerBatch(interval, took) / 1000.0
  }

  private def least(own: ReadLimit, rows: Long): Long = own match {
    case most: ReadMaxRows => Math.min(most.maxRows, rows)
    case several: CompositeReadLimit => several.getReadLimits.foldLeft(rows)((n, one) => least(one, n))
    case _ => rows
  }

  // Spark keeps them in a volatile field that only its own subclasses see, and reads it for each batch.

  private def limits(query: StreamExecution): Map[SparkDataStream, ReadLimit] =
    classOf[StreamExecution].getMethod("uniqueSources").invoke(query).asInstanceOf[Map[
      SparkDataStream,
      ReadLimit
    ]]

  private def setLimits(query: StreamExecution, limits: Map[SparkDataStream, ReadLimit]): Unit = {
    classOf[StreamExecution].getMethod("uniqueSources_$eq", classOf[Map[_, _]]).invoke(query, limits)
    ()
  }

  private val UnknownBatchMs = 100L
  private val BatchesCounted = 5

  /** The time in which the rows of a batch come: from one batch's beginning to the next one's. Batches with fewer rows are
    * shorter, so only those that were held back tell how long the next one takes; before one has, it counts as short. The
    * middle one of some counts: after a single long one, several short ones would take rows for its time.
    *
    * @param tookMs batches that were held back
    */
  def msPerBatch(intervalMs: Long, tookMs: Seq[Long]): Long = {
    val newest = tookMs.takeRight(BatchesCounted).sorted
    Math.max(intervalMs, newest.lift((newest.length - 1) / 2).getOrElse(UnknownBatchMs))
  }
}

/** A micro-batch query that is held back until `untilNs`, from batch `first` on and at least for batch `last`; its source had the limit
  * `own`.
  */
private[driver] final case class HeldSource(
    query: StreamExecution,
    source: SparkDataStream,
    own: ReadLimit,
    rate: Double,
    untilNs: Long,
    first: Long,
    last: Long
)
