package org.apache.spark.sql.laneshift.api

import org.apache.spark.sql.laneshift.driver.{DriverState, PartitionSite, QueryView, Run, RunName}

/** Finds what a call names, or says what there is. */
private[api] object Inventory {

  def driver: DriverState = DriverState.get.getOrElse(throw ApiError.notLoaded())

  /** Every known run of the query, ended ones too. */
  def runsOf(driver: DriverState, query: String): Seq[RunName] = {
    val running = driver.runs.all.map(_.names)
    val found = (running ++ driver.runs.ended).filter(_.is(query))
    if (found.isEmpty) throw ApiError.noSuchQuery(query, running)
    found
  }

  /** The run of it that goes on. */
  def runOf(driver: DriverState, query: String): Run =
    runsOf(driver, query).flatMap(run => driver.runs.get(run.runId)).headOption
      .getOrElse(throw ApiError.queryStopped(query))

  def partitions(query: String, operatorId: Long, partition: Int): Seq[PartitionSite] =
    partitions(driver.views(), query, operatorId, partition)

  /** The same of `views`, which were asked for before: all executors take part in that. */
  def partitions(
      views: Seq[QueryView],
      query: String,
      operatorId: Long,
      partition: Int
  ): Seq[PartitionSite] = {
    val run = runOf(driver, query)
    val operators = views.find(_.run.runId == run.runId).fold(Seq.empty[Seq[PartitionSite]])(_.operators)
    val operator = operators
      .find(_.head.view.spec.key.operatorId == operatorId)
      .getOrElse(throw ApiError.noSuchOperator(operatorId, operators.map(_.head.view.spec.key.operatorId)))
    val count = operator.head.view.spec.partitions
    if (partition < -1 || partition >= count) throw ApiError.noSuchPartition(partition, count)
    val found = operator.filter(p => partition == -1 || p.view.index == partition)
    if (found.isEmpty) throw ApiError.partitionNotComputed(partition, operatorId)
    found
  }
}
