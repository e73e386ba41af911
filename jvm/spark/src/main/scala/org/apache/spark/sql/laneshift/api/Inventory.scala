package org.apache.spark.sql.laneshift.api

import org.apache.spark.sql.laneshift.driver.{DriverState, PartitionSite, QueryRun, QueryView}

/** Finds what a call names, or says what there is. */
private[api] object Inventory {

  def driver: DriverState = DriverState.get.getOrElse(throw ApiError.notLoaded())

  /** Every known run of the query, ended ones too. */
  def runsOf(driver: DriverState, query: String): Seq[QueryRun] = {
    val runs = driver.queries.all.filter(q => q.id == query || q.runId == query || q.name.contains(query))
    if (runs.isEmpty) throw ApiError.noSuchQuery(query, driver.queries.active)
    runs
  }

  def partitions(query: String, operatorId: Long, partition: Int): Seq[PartitionSite] =
    partitions(driver.views(), query, operatorId, partition)

  /** The same of `views`, which were asked for before: all executors take part in that. */
  def partitions(
      views: Seq[QueryView],
      query: String,
      operatorId: Long,
      partition: Int
  ): Seq[PartitionSite] = {
    val runs = runsOf(driver, query)
    val run = runs.find(_.active).getOrElse(throw ApiError.queryStopped(query))
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
