package org.apache.spark.sql.laneshift.remote

import scala.collection.mutable

import org.apache.spark.internal.Logging
import org.apache.spark.sql.laneshift.lane.{HostAddress, PartitionTask, RemoteLanes, RemoteLaneView}
import org.apache.spark.sql.laneshift.wire.Links
import org.apache.spark.util.AccumulatorV2

import laneshift.ids.LaneId

/** A partition task's sessions with hosts: opens and releases them as lanes are wanted. A slot that a session has left, or been
  * lost in, is free for another.
  */
private[laneshift] final class RemoteSessions(
    task: PartitionTask,
    body: Array[Byte],
    split: Array[Byte],
    links: => Links,
    traffic: RemoteTraffic
) extends RemoteLanes
    with Logging {
  private val slots = task.remoteSlots
  private val sessions = mutable.LinkedHashMap.empty[Int, RemoteLane]

  /** Of sessions that are over, whose lanes are not kept: a batch of Real-time Mode may have any number. */
  private var counts = Seq.empty[AccumulatorV2[_, _]]
  private val executors = mutable.Map.empty[Int, String]
  private var closed = false

  override def want(hosts: Map[HostAddress, Int]): Unit = synchronized {
    if (!closed) {
      val wanted = mutable.Map.from(hosts).withDefaultValue(0)
      sessions.values.toList.reverse.filter(!_.isReleased).groupBy(_.host).foreach { case (host, lanes) =>
        val surplus = lanes.size - wanted(host)
        lanes.take(surplus).foreach(_.release())
        wanted(host) = math.max(0, -surplus)
      }
      // In one order: a lane then has the same number in each batch.
      wanted.toSeq.sortBy(_._1.toString).foreach { case (host, more) =>
        (0 until more).foreach(_ => open(host))
      }
    }
  }

  private def open(host: HostAddress): Unit = slots.find(!sessions.contains(_)) match {
    case None =>
      logWarning(
        s"Partition ${task.home.index} has ${slots.size} lanes on other executors: none more, on $host. " +
          "spark.sql.laneshift.remote.maxLanes allows more."
      )
    case Some(slot) =>
      val opening = SessionOpening(
        task.spec,
        task.identity,
        slot,
        body,
        split,
        task.spec.options.remoteCacheBytes
      )
      val lane = new RemoteLane(task, LaneId(slot), host, opening, links, traffic, left)
      sessions(slot) = lane
      try lane.start()
      catch {
        case error: laneshift.lane.LaneNotStarted =>
          sessions.remove(slot)
          logWarning(error.getMessage)
      }
  }

  /** A session is over; called by its thread. */
  private def left(lane: RemoteLane): Unit = synchronized {
    sessions.remove(lane.id.value)
    counts ++= lane.counted
    executors(lane.id.value) = lane.host.executorId
  }

  override def awaitOpen(): Unit = {
    val deadline = System.nanoTime() + RemoteSessions.OpeningNs
    def areOpening = synchronized(!closed && sessions.values.exists(_.isOpening))
    while (areOpening && System.nanoTime() < deadline) Thread.sleep(1L)
  }

  override def close(): Unit = {
    val late = synchronized {
      closed = true
      sessions.values.filter(_.giveUpOpening()).map(_.host).toSeq
    }
    // The batch goes on without them; one that has ended would have done so anyway.
    if (task.spec.isFixed) late.foreach(task.home.hostLate)
  }

  override def stop(): Unit = synchronized {
    closed = true
    sessions.values.foreach(_.stop())
  }

  override def counted: Seq[AccumulatorV2[_, _]] = synchronized(counts)

  override def view: Seq[RemoteLaneView] = synchronized(sessions.values.toSeq.map(_.view))

  override def executorOf(lane: Int): Option[String] = synchronized(
    sessions.get(lane).map(_.host.executorId).orElse(executors.get(lane))
  )
}

private object RemoteSessions {
  private val OpeningNs = 5000000000L
}
