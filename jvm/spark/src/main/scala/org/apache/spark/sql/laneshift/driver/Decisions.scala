package org.apache.spark.sql.laneshift.driver

import java.util.ArrayDeque

import scala.jdk.CollectionConverters._

/** Lanes that an autoscaler has changed, or would have; in words, which of them are on other executors, and the reason. */
final case class LaneChange(partition: String, before: Int, after: Int, reason: String, elsewhere: String) {
  def what: String = {
    // Records of before there were such lanes have none.
    val there = Option(elsewhere).filter(_.nonEmpty).fold("")(e => s", $e")
    s"$partition: $before to $after lanes$there"
  }
}

/** One decision of an autoscaler. `applied` is false for a dry run, while paused and after an `error`. */
final case class Decision(
    timeMs: Long,
    executor: String,
    policy: String,
    changes: Seq[LaneChange],
    notes: Seq[String],
    applied: Boolean,
    error: Option[String]
)

/** What autoscalers of this application have told of their decisions, newest first, up to a bound. Tells `listener` of each. */
private[laneshift] final class Decisions(listener: Decision => Unit) {
  private val kept = new ArrayDeque[Decision]

  /** What laneshift has decided by itself, in words. */
  def note(policy: String, said: String): Unit =
    add(Decision(System.currentTimeMillis(), "driver", policy, Nil, Seq(said), applied = true, None))

  def add(decision: Decision): Unit = {
    synchronized {
      kept.addFirst(decision)
      if (kept.size > Decisions.Bound) kept.removeLast()
    }
    listener(decision)
  }

  def newest(limit: Int): Seq[Decision] = synchronized(kept.asScala.take(limit).toList)
}

private object Decisions {
  val Bound = 1000
}
