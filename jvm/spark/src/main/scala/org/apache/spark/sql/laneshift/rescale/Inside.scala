package org.apache.spark.sql.laneshift.rescale

import java.lang.reflect.Field

import scala.collection.mutable

import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog
import org.apache.spark.sql.execution.streaming.runtime.{
  MicroBatchExecution,
  StreamExecution,
  WatermarkPropagator
}

/** What a query's execution keeps to itself and a take-over has to tell it. */
private[rescale] object Inside {
  private val CheckpointIds = "currentStateStoreCkptId"
  private val Watermarks = "watermarkPropagator"
  private val OffsetLog = "offsetLog"

  /** Refuses a Spark whose execution has other names, before anything has changed. On any thread. */
  def require(
      execution: Class[_] = classOf[MicroBatchExecution],
      of: Class[_] = classOf[StreamExecution]
  ): Unit =
    try {
      Seq(CheckpointIds, Watermarks).foreach(field(execution, _))
      field(of, OffsetLog)
      ()
    } catch {
      case e: NoSuchFieldException =>
        throw new NotRescalable.Unfit(
          s"this Spark's queries have no field ${e.getMessage}: use a version that laneshift was tested with, or the " +
            "offline rescale"
        )
    }

  def setOffsetLog(query: MicroBatchExecution, log: OffsetSeqLog): Unit = {
    query.offsetLog // has to be there: Spark makes it on its first use
    field(classOf[StreamExecution], OffsetLog).set(query, log)
  }

  /** By operator and partition, with which the next batch's stores are opened. */
  def checkpointIds(query: MicroBatchExecution): mutable.Map[Long, Array[Array[String]]] =
    read(query, CheckpointIds)

  def watermarks(query: MicroBatchExecution): WatermarkPropagator = read(query, Watermarks)

  private def read[T](query: MicroBatchExecution, name: String): T =
    field(classOf[MicroBatchExecution], name).get(query).asInstanceOf[T]

  private def field(of: Class[_], name: String): Field = {
    val found = of.getDeclaredField(name)
    found.setAccessible(true)
    found
  }
}
