package org.apache.spark.sql.laneshift

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.execution.streaming.RealTimeTrigger
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._

import laneshift.testing.Spent

/** Counts what suites cost, in whatever session a query is: Spark makes one for each. */
final class SpentQueries extends StreamingQueryListener {

  /** Runs in micro-batches of sources that have no clock. */
  private val inBatches = ConcurrentHashMap.newKeySet[UUID]

  /** Called within `start()`, not when a queue comes to it. */
  override def onQueryStarted(event: QueryStartedEvent): Unit = {
    Spent.one("queries")
    // All sessions' queries of this Spark.
    val query = Option(ElasticSession.shared.sharedState.activeStreamingQueries.get(event.id))
    if (
      query.exists(q => !q.trigger.isInstanceOf[RealTimeTrigger] && !ElasticSession.isAnother(q.sparkSession))
    )
      inBatches.add(event.runId)
    ()
  }

  /** Batches without rows are not counted: how many there are hangs on when timers are looked at. */
  override def onQueryProgress(event: QueryProgressEvent): Unit =
    if (event.progress.numInputRows > 0 && inBatches.contains(event.progress.runId)) Spent.one("batches")

  override def onQueryTerminated(event: QueryTerminatedEvent): Unit = ()
}
