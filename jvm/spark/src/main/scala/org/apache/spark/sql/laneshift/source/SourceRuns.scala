package org.apache.spark.sql.laneshift.source

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicReference

import scala.collection.mutable
import scala.jdk.CollectionConverters._

/** All readers of a source together give `rate` rows per second at most, until `nowNs` has come to `untilNs`. */
final case class SourceLimit(rate: Double, untilNs: Long) {
  def isOver(nowNs: Long): Boolean = nowNs - untilNs >= 0
}

/** The sources of Real-time queries as far as their readers are in this process, by run id: what they have given, and how fast
  * they may go. The driver tells limits to all executors.
  */
class SourceRuns(clock: () => Long) {

  /** Readers go on from those of the batch before. */
  private final class SourceRun {
    val limit = new AtomicReference[SourceLimit]
    val paces = new ConcurrentHashMap[Int, RowPace]
  }

  private val runs = new ConcurrentHashMap[String, SourceRun]

  /** The newest runs that have ended: a query may be stopped while a batch begins, and its last tasks come late. */
  private val ended = mutable.LinkedHashSet.empty[String]
  private val EndedKept = 1000

  private def run(id: String): SourceRun = synchronized {
    if (ended(id)) new SourceRun else runs.computeIfAbsent(id, _ => new SourceRun)
  }

  private[laneshift] def pace(runId: String, partition: Int, readers: Int): RowPace = {
    val of = run(runId)
    of.paces.computeIfAbsent(partition, _ => new RowPace(of.limit, readers, clock))
  }

  /** Replaces a limit that is in force; 0 seconds end it. */
  def limit(runId: String, rate: Double, seconds: Double): Unit =
    run(runId).limit.set(SourceLimit(rate, clock() + (seconds * 1e9).toLong))

  /** Rows that readers here have given since their runs began; of runs that have no readers here, nothing. */
  def rows: Map[String, Long] = runs.asScala.toMap.collect {
    case (id, run) if !run.paces.isEmpty => id -> run.paces.values().asScala.map(_.rows).sum
  }

  /** The run has ended. */
  def forget(runId: String): Unit = synchronized {
    ended += runId
    if (ended.size > EndedKept) ended -= ended.head
    runs.remove(runId)
    ()
  }

  /** The plugin stops in this process: all runs have ended. */
  def forgetAll(): Unit = runs.keySet().asScala.toSeq.foreach(forget)
}

/** Those of this process. */
object SourceRuns extends SourceRuns(() => System.nanoTime())
