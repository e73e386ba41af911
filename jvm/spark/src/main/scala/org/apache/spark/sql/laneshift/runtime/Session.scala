package org.apache.spark.sql.laneshift.runtime

import org.apache.spark.sql.laneshift.lane.{DirectLane, PartitionTask}

import laneshift.lane.{Inlet, InletStats}

/** What a partition does at one moment: who computes it, and how. */
private[runtime] sealed trait Session {

  /** The task of lanes that computes the partition. */
  def task: Option[PartitionTask]

  /** True while rows are worked on. */
  def isWorking: Boolean

  /** What its lanes have done, if they have threads. */
  def stats: Option[InletStats] = None

  /** What it has done so far, `stats` being its own. */
  def counts(stats: Option[InletStats]): Counts = Counts.none
}

private[runtime] object Session {

  /** Nobody computes the partition. */
  case object Resting extends Session {
    override def task: Option[PartitionTask] = None
    override def isWorking: Boolean = false
  }

  /** Spark's own path computes a whole batch. It works, as a lane does, from its first row on: what comes before is the opening of
    * its stores.
    */
  final class Stock(in: RowCount) extends Session {
    override def task: Option[PartitionTask] = None
    override def isWorking: Boolean = true
    override def counts(stats: Option[InletStats]): Counts =
      Counts.ofOneLane(in.rows, if (in.sinceNs == 0L) 0L else System.nanoTime() - in.sinceNs)
  }

  /** A task has begun, or has put out everything, and works on no rows. */
  final case class Attached(by: PartitionTask) extends Session {
    override def task: Option[PartitionTask] = Some(by)
    override def isWorking: Boolean = false
  }

  /** The task's own thread runs the only lane. */
  final case class Direct(by: PartitionTask, lane: DirectLane) extends Session {
    override def task: Option[PartitionTask] = Some(by)
    override def isWorking: Boolean = true
    override def counts(stats: Option[InletStats]): Counts = Counts.ofOneLane(lane.rows, lane.busyNs)
  }

  /** Receiver and lanes have threads of their own. */
  final case class Threaded(by: PartitionTask, inlet: Inlet[_]) extends Session {
    override def task: Option[PartitionTask] = Some(by)
    override def isWorking: Boolean = true
    override def stats: Option[InletStats] = Some(inlet.stats)
    override def counts(stats: Option[InletStats]): Counts =
      stats.fold(Counts.none)(s => Counts(s.offered.sum, s.laneRows, s.busyNs, s.blockedNs))
  }
}
