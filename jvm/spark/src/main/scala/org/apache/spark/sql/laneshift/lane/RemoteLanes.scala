package org.apache.spark.sql.laneshift.lane

import org.apache.spark.util.AccumulatorV2

/** Where an executor's host lanes are reached. */
private[laneshift] final case class HostAddress(executorId: String, host: String, port: Int) {
  override def toString: String = s"executor $executorId ($host:$port)"
}

/** A lane on another executor, at one moment. Bytes and rows since its session began. */
private[laneshift] final case class RemoteLaneView(
    lane: Int,
    executorId: String,
    open: Boolean,
    keptBytes: Long,
    rowsSent: Long,
    frames: Long,
    stateReads: Long,
    bytesSent: Long,
    bytesReceived: Long
)

/** The lanes that a partition has on other executors during one task. Any thread may call it. */
private[laneshift] trait RemoteLanes {

  /** So many lanes are wanted on each of these executors, and none elsewhere: opens sessions, and releases those that are too
    * many. Does not wait; a lane takes part once its session is open.
    */
  def want(hosts: Map[HostAddress, Int]): Unit

  /** Waits until every session that was wanted is open or refused, but not for long. */
  def awaitOpen(): Unit

  /** No lane comes any more: sessions that are not open yet are given up. */
  def close(): Unit

  /** Ends every session. */
  def stop(): Unit

  /** What the bodies elsewhere have counted; complete once every thread of the task has ended. */
  def counted: Seq[AccumulatorV2[_, _]]

  def view: Seq[RemoteLaneView]

  /** The executor of the newest session that has had this number; none if there was none. */
  def executorOf(lane: Int): Option[String]
}

private[laneshift] object RemoteLanes {

  /** For partitions whose lanes stay home. */
  object None extends RemoteLanes {
    override def want(hosts: Map[HostAddress, Int]): Unit = ()
    override def awaitOpen(): Unit = ()
    override def close(): Unit = ()
    override def stop(): Unit = ()
    override def counted: Seq[AccumulatorV2[_, _]] = Nil
    override def view: Seq[RemoteLaneView] = Nil
    override def executorOf(lane: Int): Option[String] = scala.None
  }
}
