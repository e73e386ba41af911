package org.apache.spark.sql.laneshift.driver

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.{
  AvailableNowTrigger,
  OneTimeTrigger,
  ProcessingTimeTrigger,
  RealTimeTrigger
}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.streaming.Trigger

/** What begins a query's batches. */
sealed abstract class TriggerView(val kind: String, val intervalMs: Option[Long])

object TriggerView {
  case object RealTime extends TriggerView("real-time", None)
  case object AvailableNow extends TriggerView("available-now", None)
  case object BackToBack extends TriggerView("back-to-back", None)
  final case class Interval(ms: Long) extends TriggerView("interval", Some(ms))

  def of(trigger: Trigger): TriggerView = trigger match {
    case _: RealTimeTrigger => RealTime
    case OneTimeTrigger | AvailableNowTrigger => AvailableNow
    case ProcessingTimeTrigger(ms) if ms > 0 => Interval(ms)
    case _ => BackToBack
  }
}

/** The queries of all sessions that run, which Spark keeps to itself. */
private[laneshift] object RunningQueries {
  def get(id: String): Option[StreamExecution] =
    SparkSession.getDefaultSession
      .flatMap(s => Option(s.sharedState.activeStreamingQueries.get(UUID.fromString(id))))

  /** Whether a run goes on, at once when it ends: who has stopped a query may come sooner than Spark's event of it. */
  def goesOn(runId: String): Boolean =
    SparkSession.getDefaultSession.forall(goesOn(_, UUID.fromString(runId)))

  def goesOn(session: SparkSession, runId: UUID): Boolean =
    session.sharedState.activeStreamingQueries.values().asScala.exists(_.runId == runId)
}
