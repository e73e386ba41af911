package org.apache.spark.sql.execution.streaming.state

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

/** The entries that Spark has of stores which lanes of other executors' partitions have opened here. Spark gives up a run's entries when
  * the run ends, by its name; these stand under another one (design fact 12), so it is done here.
  */
private[sql] object StoresOfHosts extends Logging {
  private val entries = new ConcurrentHashMap[StateStoreProviderId, StateStoreProvider]

  private[state] def opened(store: StateStoreId, run: String, provider: StateStoreProvider): Unit = {
    entries.put(StateStoreProviderId(store, UUID.fromString(run)), provider)
    ()
  }

  /** Spark gives a provider up also by itself, and makes a new one the next time. */
  private[state] def closed(provider: StateStoreProvider): Unit = {
    entries.values().remove(provider)
    ()
  }

  /** No lane works here any more for the run that goes by this name. */
  def forget(run: UUID): Unit = {
    val ended = entries.keySet().asScala.toSeq.filter(_.queryRunId == run)
    ended.foreach(StateStore.doMaintenanceAndUnload)
    if (ended.nonEmpty)
      try StateStoreProvider.coordinatorRef.foreach(_.deactivateInstances(run))
      catch {
        case NonFatal(error) => logInfo("The driver goes on to know stores of a run that has ended.", error)
      }
  }

  /** Those that are there: for tests. */
  private[sql] def all: Set[StateStoreProviderId] = entries.keySet().asScala.toSet
}
