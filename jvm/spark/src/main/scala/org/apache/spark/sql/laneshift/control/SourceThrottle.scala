package org.apache.spark.sql.laneshift.control

import java.util.UUID
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.streaming.{ReadLimit, ReadMaxRows, SparkDataStream}
import org.apache.spark.sql.execution.streaming.{ProcessingTimeTrigger, RealTimeTrigger}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.laneshift.workload.DealtStream
import org.apache.spark.util.ThreadUtils

/** Holds back the source of a running query. In Real-time Mode its readers wait, which only the sources of laneshift can do. In
  * micro-batch the next batches read fewer rows, as by `maxOffsetsPerTrigger`: Spark asks a source with the limit that it keeps
  * for it, and the sources of laneshift and Kafka take one of rows. In Spark's package because the list of running queries is
  * private to it.
  */
private[laneshift] object SourceThrottle {

  /** What a source had before, and until when it is held back. */
  private final case class Held(own: ReadLimit, untilNs: Long, untilBatch: Long)

  private val held = new ConcurrentHashMap[UUID, Held]
  private lazy val timer = ThreadUtils.newDaemonSingleThreadScheduledExecutor("laneshift source limits")

  /** To `rate` rows per second or, if `relative`, to that share of what the source gives now. Left: why it cannot be held back. */
  def limit(queryId: String, rate: Double, relative: Boolean, seconds: Double): Either[String, Applied] =
    running(UUID.fromString(queryId)).flatMap { query =>
      limits(query).toSeq match {
        case Seq((source: DealtStream, _)) if realTime(query) =>
          Executors.limitSource(queryId, rate, relative, seconds)
          Right(Applied.Now)
        case Seq((source, own)) if !realTime(query) && takesRows(source) =>
          slower(query, source, own, rowsOf(query, rate, relative), seconds)
          Right(Applied.NextBatch)
        case Seq((source, _)) if realTime(query) =>
          Left(s"in Real-time Mode only laneshift-workload and laneshift-replay can wait, not $source")
        case Seq((source, _)) =>
          Left(s"in micro-batch only Kafka, laneshift-workload and laneshift-replay can, not $source")
        case several => Left(s"it has ${several.size} sources, and which of them to hold is not known")
      }
    }

  private def running(id: UUID): Either[String, StreamExecution] =
    SparkSession.getDefaultSession
      .flatMap(s => Option(s.sharedState.activeStreamingQueries.get(id)))
      .toRight("it has just stopped")

  private def realTime(query: StreamExecution) = query.trigger.isInstanceOf[RealTimeTrigger]

  private def takesRows(source: SparkDataStream) =
    source.isInstanceOf[DealtStream] || source.getClass.getSimpleName == "KafkaMicroBatchStream"

  private def slower(
      query: StreamExecution,
      source: SparkDataStream,
      now: ReadLimit,
      rows: Long,
      seconds: Double
  ): Unit = synchronized {
    val last = Option(query.lastProgress)
    val own = Option(held.get(query.id)).fold(now)(_.own)
    val most = own match {
      case limited: ReadMaxRows => Math.min(limited.maxRows, rows)
      case _ => rows
    }
    // The batch that runs has read its rows, and the limit is for a whole one.
    val until = Held(own, System.nanoTime() + (seconds * 1e9).toLong, last.fold(0L)(_.batchId) + 2)
    held.put(query.id, until)
    setLimits(query, Map(source -> ReadLimit.maxRows(most)))
    lift(query, source, (seconds * 1000).toLong)
  }

  /** Rows of a batch, at least one. */
  private def rowsOf(query: StreamExecution, rate: Double, relative: Boolean): Long = {
    val rows =
      if (relative) rate * Option(query.lastProgress).fold(0L)(_.numInputRows)
      else rate * secondsPerBatch(query)
    Math.max(1L, rows.toLong)
  }

  /** The time in which a batch's rows come: from one batch's beginning to the next one's. */
  private def secondsPerBatch(query: StreamExecution): Double = {
    val interval = query.trigger match {
      case ProcessingTimeTrigger(ms) => ms
      case _ => 0L
    }
    val took = Option(query.lastProgress).flatMap(p => Option(p.durationMs.get("triggerExecution")))
    Seq(interval, took.fold(0L)(_.longValue), ShortestBatchMs).max / 1000.0
  }

  private val ShortestBatchMs = 100L

  private def lift(query: StreamExecution, source: SparkDataStream, afterMs: Long): Unit = {
    timer.schedule(
      new Runnable {
        override def run(): Unit = SourceThrottle.synchronized {
          Option(held.get(query.id)).foreach { h =>
            val over = System.nanoTime() >= h.untilNs &&
              Option(query.lastProgress).forall(_.batchId >= h.untilBatch)
            if (over || !query.isActive) {
              held.remove(query.id)
              setLimits(query, Map(source -> h.own))
            } else lift(query, source, ShortestBatchMs)
          }
        }
      },
      Math.max(afterMs, 1L),
      TimeUnit.MILLISECONDS
    )
    ()
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
}
