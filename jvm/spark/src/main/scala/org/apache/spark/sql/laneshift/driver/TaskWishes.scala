package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.laneshift.spec.{OperatorKey, TaskWish}
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent

/** In how many tasks somebody wants an operator's partitions from its next batch on. Ends with the run. */
private[laneshift] final class TaskWishes extends SparkListener {
  private val wishes = new ConcurrentHashMap[OperatorKey, TaskWish]

  def of(key: OperatorKey): Option[TaskWish] = Option(wishes.get(key))

  def set(key: OperatorKey, wish: TaskWish): Unit = {
    wishes.put(key, wish)
    ()
  }

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case over: QueryTerminatedEvent =>
      wishes.keySet().removeIf(_.runId == over.runId.toString)
      ()
    case _ => ()
  }
}
