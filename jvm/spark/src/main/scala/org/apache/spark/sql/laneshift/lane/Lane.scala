package org.apache.spark.sql.laneshift.lane

import org.apache.spark.executor.TaskMetrics

import laneshift.ids.LaneId

/** What runs one lane of a partition task: takes its rows from the inlet, puts its outputs on the outlet, lets shards go
  * between two rows when they are recalled, seals the stores at its end (docs/handoff.md). Every thread of it is one of the
  * task's ([[TaskThreads]]).
  */
private[lane] trait Lane {
  def id: LaneId

  /** Begins. If it throws, nothing has begun. */
  def start(): Unit

  /** What the lane's body has counted; complete once every thread of the task has ended. */
  def counted: TaskMetrics
}

/** Makes the lanes of a partition task. */
private[laneshift] trait Lanes {
  private[lane] def make(task: PartitionTask, id: LaneId): Lane
}
