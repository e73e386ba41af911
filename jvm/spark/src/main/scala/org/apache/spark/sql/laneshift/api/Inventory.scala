package org.apache.spark.sql.laneshift.api

import org.apache.spark.sql.laneshift.driver.{DriverState, PartitionSite, QueryView, Run, RunName}

/** Finds what a call names, or says what there is. */
private[api] object Inventory {

  def driver: DriverState = DriverState.get.getOrElse(throw ApiError.notLoaded())

  /** Every known run of the query, ended ones too. One that has another query's id for a name is not that query. */
  def runsOf(driver: DriverState, query: String): Seq[RunName] = {
    val running = driver.runs.all.map(_.names)
    val every = running ++ driver.runs.ended
    val byId = every.filter(_.isId(query))
    val found = if (byId.nonEmpty) byId else every.filter(_.is(query))
    if (found.isEmpty) throw ApiError.noSuchQuery(query, running)
    found
  }

  /** The run of it that goes on. */
  def runOf(driver: DriverState, query: String): Run =
    runsOf(driver, query).flatMap(run => driver.runs.get(run.runId)).headOption
      .getOrElse(throw ApiError.queryStopped(query))

  /** One partition of an operator, or all of them; of `views`, which all executors take part in. */
  def partitions(
      views: Seq[QueryView],
      query: String,
      operatorId: Long,
      partition: Option[Int]
  ): Seq[PartitionSite] = {
    val run = runOf(driver, query)
    val operators = views.find(_.run.runId == run.runId).fold(Seq.empty[Seq[PartitionSite]])(_.operators)
    val operator = operators
      .find(_.head.view.spec.key.operatorId == operatorId)
      .getOrElse(throw ApiError.noSuchOperator(operatorId, operators.map(_.head.view.spec.key.operatorId)))
    val count = operator.head.view.spec.partitions
    partition.foreach(p => if (p < 0 || p >= count) throw ApiError.noSuchPartition(p, count))
    val found = operator.filter(site => partition.forall(_ == site.view.index))
    partition.foreach(p => if (found.isEmpty) throw ApiError.partitionNotComputed(p, operatorId))
    found
  }
}
