package org.apache.spark.sql.laneshift.remote

import java.lang.ref.WeakReference
import java.util.UUID
import java.util.concurrent.{ConcurrentHashMap, ScheduledThreadPoolExecutor, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state.StoresOfHosts
import org.apache.spark.sql.laneshift.spec.EndedRuns
import org.apache.spark.sql.laneshift.wire.{Link, LinkListener, Links, LinkServer, LinkSettings}

import laneshift.lane.LaneBudget

/** The lanes that this process runs for partitions of other executors. Nothing of it is there before the first is wanted. */
private[laneshift] final class HostLanes(budget: LaneBudget) {
  private val lanes = ConcurrentHashMap.newKeySet[HostLane]()

  /** Of tasks whose session has no jars of its own. */
  private val ownLoader = Thread.currentThread.getContextClassLoader

  /** Of the newest task here, by query, where it is another: a session's own jars and classes may have the names of another's. */
  private val loaders = new ConcurrentHashMap[String, WeakReference[ClassLoader]]
  private var server: LinkServer = _
  private var ownLinks: Links = _
  private var janitor: ScheduledThreadPoolExecutor = _

  /** The last lanes of a run may end later. */
  private val ended = new EndedRuns

  /** On its thread. */
  def taskStarted(task: TaskContext): Unit = {
    val loader = Thread.currentThread.getContextClassLoader
    if (loader ne ownLoader) Option(task.getLocalProperty(StreamExecution.QUERY_ID_KEY)).foreach { query =>
      loaders.values().removeIf(_.get == null)
      loaders.put(query, new WeakReference(loader))
    }
  }

  private[remote] def loaderOf(query: String): ClassLoader =
    Option(loaders.get(query)).flatMap(found => Option(found.get)).getOrElse(ownLoader)

  /** Where lanes are reached; begins to listen if nobody has asked before. */
  def address(): (String, Int) = synchronized {
    if (server == null) {
      server = new LinkServer(LinkSettings.of(SparkEnv.get), accept)
      janitor = HostLanes.newJanitor()
    }
    (server.address.host, server.address.port)
  }

  /** Lanes that run here for others. */
  def running: Int = lanes.size

  /** What this process has sent to lanes elsewhere, and has had of them. */
  val traffic = new RemoteTraffic

  /** The way from here to lanes elsewhere. */
  def links: Links = synchronized {
    if (ownLinks == null) ownLinks = new Links(LinkSettings.of(SparkEnv.get))
    ownLinks
  }

  private def accept(link: Link): LinkListener = {
    @volatile var admitted = false
    def admit(): Option[String] = {
      admitted = budget.take(1) == 1
      if (admitted) None
      else Some("the executor runs as many lanes as spark.sql.laneshift.lanesPerExecutor allows")
    }
    val lane = new HostLane(
      link,
      loaderOf,
      admit _,
      over => {
        if (admitted) budget.give(1)
        lanes.remove(over)
        link.close("the session is over")
        over.runId.filter(ended.has).foreach(giveUpStores)
      }
    )
    lanes.add(lane)
    new LinkListener {
      override def received(message: java.nio.ByteBuffer): Unit = lane.received(message)
      override def closed(cause: Option[Throwable]): Unit = {
        lane.closed(cause)
        if (!lane.hasBegun) lanes.remove(lane)
        // A body may be at something else than its rows.
        HostLanes.this.synchronized {
          if (janitor != null && !janitor.isShutdown)
            janitor.schedule(
              (() => if (lanes.contains(lane)) lane.interrupt()): Runnable,
              1L,
              TimeUnit.SECONDS
            )
        }
      }
    }
  }

  /** The run has ended. */
  def forget(runId: String): Unit = {
    ended.add(runId)
    giveUpStores(runId)
  }

  private def giveUpStores(runId: String): Unit =
    StoresOfHosts.forget(HostBody.standIn(UUID.fromString(runId)))

  /** Closes every session here, whatever it is at: tests. */
  def cut(): Unit = lanes.forEach(_.cut())

  def stop(): Unit = synchronized {
    if (ownLinks != null) ownLinks.stop()
    if (server != null) {
      server.stop()
      janitor.shutdownNow()
      lanes.asScala.foreach(_.interrupt())
    }
  }
}

private object HostLanes {

  /** Its thread is there only while it has something to do. */
  private def newJanitor(): ScheduledThreadPoolExecutor = {
    val janitor = new ScheduledThreadPoolExecutor(
      1,
      (work: Runnable) => {
        val thread = new Thread(work, "laneshift host lanes")
        thread.setDaemon(true)
        thread
      }
    )
    janitor.setKeepAliveTime(100L, TimeUnit.MILLISECONDS)
    janitor.allowCoreThreadTimeOut(true)
    janitor
  }
}
