package org.apache.spark.sql.laneshift.driver

/** A query with its elastic operators. */
private[laneshift] final case class QueryView(run: QueryRun, operators: Seq[Seq[PartitionSite]]) {
  def realTime: Boolean = operators.headOption.exists(_.head.view.spec.realTime)

  /** None if the query has just ended. */
  def trigger: Option[TriggerView] = RunningQueries.get(run.id).map(q => TriggerView.of(q.trigger))
}

private[laneshift] object QueryView {

  /** These runs, with what there is of them among `sites`. */
  def of(runs: Seq[QueryRun], sites: Seq[PartitionSite]): Seq[QueryView] = {
    val byRun = sites.groupBy(_.view.spec.key.runId)
    runs.map { run =>
      val operators = byRun.getOrElse(run.runId, Nil).groupBy(_.view.spec.key.operatorId).toSeq.sortBy(_._1)
      QueryView(run, operators.map(_._2.sortBy(_.view.index)))
    }
  }
}
