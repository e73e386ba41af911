package org.apache.spark.sql.laneshift.driver

import org.apache.spark.sql.execution.streaming.{
  AvailableNowTrigger,
  OneTimeTrigger,
  ProcessingTimeTrigger,
  RealTimeTrigger
}
import org.apache.spark.sql.streaming.Trigger

/** A query with its elastic operators. */
private[laneshift] final case class QueryView(run: Run, operators: Seq[Seq[PartitionSite]]) {
  def realTime: Boolean = operators.headOption.exists(_.head.view.spec.realTime)

  /** None if the query has just ended. */
  def trigger: Option[TriggerView] = run.execution.map(q => TriggerView.of(q.trigger))
}

private[laneshift] object QueryView {

  /** These runs, with what there is of them among `sites`. */
  def of(runs: Seq[Run], sites: Seq[PartitionSite]): Seq[QueryView] = {
    val byRun = sites.groupBy(_.view.spec.key.runId)
    runs.map { run =>
      val operators = byRun.getOrElse(run.runId, Nil).groupBy(_.view.spec.key.operatorId).toSeq.sortBy(_._1)
      QueryView(run, operators.map(_._2.sortBy(_.view.index)))
    }
  }
}

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
