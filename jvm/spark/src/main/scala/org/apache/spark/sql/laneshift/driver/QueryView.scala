package org.apache.spark.sql.laneshift.driver

/** A query with its elastic operators. */
private[laneshift] final case class QueryView(run: QueryRun, operators: Seq[Seq[PartitionSite]]) {
  def realTime: Boolean = operators.headOption.exists(_.head.view.spec.realTime)
}

private[laneshift] object QueryView {

  /** Every query that runs. */
  def all(): Seq[QueryView] = {
    val byRun = ExecutorDirectory.partitions().groupBy(_.view.spec.key.runId)
    QueryInventory.all.filter(_.active).map { run =>
      val operators = byRun.getOrElse(run.runId, Nil).groupBy(_.view.spec.key.operatorId).toSeq.sortBy(_._1)
      QueryView(run, operators.map(_._2.sortBy(_.view.index)))
    }
  }
}
