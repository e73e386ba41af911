package org.apache.spark.sql.laneshift.rescale

import scala.collection.mutable

import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog
import org.apache.spark.sql.execution.streaming.runtime.{
  MicroBatchExecution,
  StreamExecution,
  WatermarkPropagator
}

/** What a query's execution keeps to itself and a take-over has to tell it. */
private[rescale] object Inside {

  def setOffsetLog(query: MicroBatchExecution, log: OffsetSeqLog): Unit = {
    query.offsetLog // has to be there: Spark makes it on its first use
    val field = classOf[StreamExecution].getDeclaredField("offsetLog")
    field.setAccessible(true)
    field.set(query, log)
  }

  /** By operator and partition, with which the next batch's stores are opened. */
  def checkpointIds(query: MicroBatchExecution): mutable.Map[Long, Array[Array[String]]] =
    read(query, "currentStateStoreCkptId")

  def watermarks(query: MicroBatchExecution): WatermarkPropagator = read(query, "watermarkPropagator")

  private def read[T](query: MicroBatchExecution, name: String): T = {
    val field = classOf[MicroBatchExecution].getDeclaredField(name)
    field.setAccessible(true)
    field.get(query).asInstanceOf[T]
  }
}
