package org.apache.spark.sql.laneshift.workload.exchange

import org.apache.spark.sql.{DataFrame, Encoder, Encoders}
import org.apache.spark.sql.laneshift.workload.RowCost
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}

/** The exchange as a query, for the benchmarks in Python, too. */
object Exchange {
  private[exchange] val Wait = RowCost.Modes.indexOf("wait")

  private implicit val ofStock: Encoder[Long] = Encoders.scalaLong
  private implicit val ofOrder: Encoder[LimitOrder] = Encoders.product
  private implicit val ofReport: Encoder[OrderReport] = Encoders.product
  private implicit val ofAnswer: Encoder[Answer] = Encoders.product

  /** An [[Answer]] to each order, in update mode.
    *
    * @param orders with the columns of [[LimitOrder]]
    * @param orderMicros, reportMicros what a row costs the first and the second operator (microseconds)
    */
  def answered(orders: DataFrame, orderMicros: Long, reportMicros: Long): DataFrame = orders
    .as[LimitOrder]
    .groupByKey((order: LimitOrder) => order.stock)
    .transformWithState(new Transactor(orderMicros), TimeMode.None(), OutputMode.Update())
    .groupByKey((report: OrderReport) => report.stock)
    .transformWithState(new Statistics(reportMicros), TimeMode.None(), OutputMode.Update())
    .toDF()
}
