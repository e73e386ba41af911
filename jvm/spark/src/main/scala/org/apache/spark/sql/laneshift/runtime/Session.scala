package org.apache.spark.sql.laneshift.runtime

import org.apache.spark.sql.laneshift.lane.{DirectLane, LaneTask}

import laneshift.lane.{Inlet, InletStats, LaneFeed}

/** What a partition does at one moment: who computes it, and how. */
private[runtime] sealed trait Session {

  /** The task of lanes that computes the partition. */
  def task: Option[LaneTask]

  /** True while rows are worked on. */
  def isWorking: Boolean

  /** Whether more lanes would get rows of this batch: some may still come in. */
  def mayGetLanes: Boolean = isWorking

  /** Whether what its lanes do now says little of what they will. */
  def areLanesStarting: Boolean = false

  /** What its lanes have done, if they have threads. */
  def stats: Option[InletStats] = None

  /** How long the task's own thread has worked on rows; 0 where lanes have threads. */
  def directNs: Long = 0L

  /** Whether the time that its lanes have worked has the commits of their stores in it, once they are over. */
  def countsCommits: Boolean = true

  /** What it has done so far, `stats` being its own. */
  def counts(stats: Option[InletStats]): Counts = Counts()

  /** What gives its lanes their rows, where each has shards of its own. */
  def inlet: Option[Inlet[_]] = None
}

private[runtime] object Session {

  /** Nobody computes the partition. */
  case object Resting extends Session {
    override def task: Option[LaneTask] = None
    override def isWorking: Boolean = false
  }

  /** Spark's own path computes a whole batch. It works, as a lane does, from its first row on: what comes before is the opening of
    * its stores.
    */
  final class Stock(in: RowCount) extends Session {
    override def task: Option[LaneTask] = None
    override def isWorking: Boolean = true
    override def counts(stats: Option[InletStats]): Counts =
      ofOneLane(in.rows, if (in.sinceNs == 0L) 0L else System.nanoTime() - in.sinceNs)
  }

  /** A task has begun, or has put out everything, and works on no rows. */
  final case class Attached(by: LaneTask) extends Session {
    override def task: Option[LaneTask] = Some(by)
    override def isWorking: Boolean = false
  }

  /** The task's own thread runs the only lane. */
  final case class Direct(by: LaneTask, lane: DirectLane) extends Session {
    override def task: Option[LaneTask] = Some(by)
    override def isWorking: Boolean = true
    override def mayGetLanes: Boolean = !lane.hasAllRows
    override def directNs: Long = lane.busyNs
    override def countsCommits: Boolean = lane.countsCommits
    override def counts(stats: Option[InletStats]): Counts = ofOneLane(lane.rows, lane.busyNs)
  }

  private def ofOneLane(rows: Long, busyNs: Long): Counts =
    Counts(rows, laneRows = Array(rows), busyNs = Array(busyNs))

  /** Receiver and lanes have threads of their own. */
  final case class Threaded(by: LaneTask, feed: LaneFeed) extends Session {
    override def task: Option[LaneTask] = Some(by)
    override def isWorking: Boolean = true
    override def mayGetLanes: Boolean = !feed.hasAllRows
    override def areLanesStarting: Boolean = feed.areStarting
    override def stats: Option[InletStats] = Some(feed.stats)
    override def counts(stats: Option[InletStats]): Counts =
      stats.fold(Counts()) { s =>
        Counts(s.offered.sum, laneRows = s.laneRows, busyNs = s.busyNs, blockedNs = s.blockedNs)
      }
    override def inlet: Option[Inlet[_]] = feed match {
      case inlet: Inlet[_] => Some(inlet)
      case _ => None
    }
  }
}
