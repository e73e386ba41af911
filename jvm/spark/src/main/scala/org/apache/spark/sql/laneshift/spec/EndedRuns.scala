package org.apache.spark.sql.laneshift.spec

import scala.collection.mutable

/** The newest runs of queries that have ended: what their last tasks do comes late. */
private[laneshift] final class EndedRuns {
  private val runs = mutable.LinkedHashSet.empty[String]

  def add(runId: String): Unit = synchronized {
    runs += runId
    if (runs.size > EndedRuns.Kept) runs -= runs.head
  }

  def has(runId: String): Boolean = synchronized(runs(runId))
}

private object EndedRuns {
  val Kept = 1000
}
