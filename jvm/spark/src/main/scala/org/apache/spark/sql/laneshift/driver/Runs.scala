package org.apache.spark.sql.laneshift.driver

import java.util.UUID

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.laneshift.rescale.{LiveRescale, Rescales}
import org.apache.spark.sql.streaming.StreamingQueryListener.{
  QueryProgressEvent,
  QueryStartedEvent,
  QueryTerminatedEvent
}

/** The runs of all queries of this driver's sessions: each [[Run]] is made and dropped here and nowhere else. The listener that
  * hears of their ends is this one.
  */
private[laneshift] final class Runs(driver: DriverState, nowNs: () => Long) extends SparkListener {
  private val running = mutable.LinkedHashMap.empty[String, Run]
  private var over = Vector.empty[RunName]

  /** Those that go on, the oldest first. */
  def all: Seq[Run] = synchronized(running.values.toList)

  def get(runId: String): Option[Run] = synchronized(running.get(runId))

  /** The newest that have ended, the oldest first. */
  def ended: Seq[RunName] = synchronized(over)

  /** The run whose batch is planned; none if it is no run that goes on. Spark's event of its start may come later, and that of its
    * end cannot have come before.
    */
  def planned(session: SparkSession, runId: UUID): Option[Run] = {
    val found = synchronized {
      running.get(runId.toString).orElse(RunningQueries.of(session, runId).map { query =>
        begin(RunName(query.id.toString, runId.toString, Option(query.name)))
      })
    }
    found.foreach(_.ofTenant = driver.tenants.of(session.sessionState.conf))
    found
  }

  private def begin(names: RunName): Run = synchronized {
    running.getOrElseUpdate(
      names.runId,
      new Run(names, driver.decisions.note, () => driver.looks.begin(), nowNs)
    )
  }

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case e: QueryStartedEvent =>
      begin(RunName(e.id.toString, e.runId.toString, Option(e.name)))
      ()
    case e: QueryProgressEvent => get(e.progress.runId.toString).foreach { run =>
        run.progressed(e.progress)
        SourceThrottle.update(run)
      }
    case e: QueryTerminatedEvent => end(e.id.toString, e.runId.toString)
    case _ => ()
  }

  private def end(id: String, runId: String): Unit = {
    val run = get(runId)
    try if (run.exists(_.isElastic)) driver.looks.beforeEnd(runId)
    finally {
      synchronized {
        running -= runId
        over = (over :+ run.fold(RunName(id, runId, None))(_.names)).takeRight(Runs.Remembered)
      }
      run.foreach(_.end())
      driver.executors.forget(runId)
    }
  }

  /** Rescales that have not ended. */
  def rescales: Seq[LiveRescale] = all.flatMap(_.rescale).filterNot(_.state.ended)

  /** One at a time is begun: they share executors. */
  private val rescaling = new Object

  /** Begins to give a run `partitions` state partitions; throws [[org.apache.spark.sql.laneshift.rescale.NotRescalable]], and the
    * query has noticed nothing. Reads its checkpoint.
    *
    * @param slots that all its tasks of a batch have together
    */
  def rescale(run: Run, query: StreamExecution, partitions: Int, slots: Int): LiveRescale =
    rescaling.synchronized {
      val begun = Rescales.begin(query, partitions, slots, () => run.rescale, rescales)
      run.newestRescale = Some(begun)
      begun
    }

  /** The application ends: so do the threads of rescales. */
  def stop(): Unit = rescales.foreach { r => r.cancel(); () }
}

private[driver] object Runs {

  /** Runs that have ended. */
  val Remembered = 1000
}

/** The queries of all sessions that run, which Spark keeps to itself. */
private[laneshift] object RunningQueries {
  def get(id: String): Option[StreamExecution] =
    SparkSession.getDefaultSession
      .flatMap(s => Option(s.sharedState.activeStreamingQueries.get(UUID.fromString(id))))

  /** None from the moment on at which the run ends: Spark's event of that comes later. */
  def of(session: SparkSession, runId: UUID): Option[StreamExecution] =
    session.sharedState.activeStreamingQueries.values().asScala.find(_.runId == runId)
}
