package org.apache.spark.sql.laneshift.runtime

import java.util.Properties

import org.apache.spark.TaskContextImpl
import org.apache.spark.executor.TaskMetrics

/** A task's context without a task, which begins and ends as a test says. */
private[runtime] object LoneTask {
  def apply(): TaskContextImpl =
    new TaskContextImpl(0, 0, 0, 0L, 0, 1, null, new Properties, null, TaskMetrics.empty, 1.0, Map.empty)
}
