package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.laneshift.spec.OperatorKey
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent

/** For which operators a planner of key distribution decides whether row-wise work above their state is apart, instead of the
  * option and of what executors tell. A claim lapses unless it is renewed, and ends with the run (docs/handoff.md, section 16).
  */
private[laneshift] final class KeyClaims(clock: () => Long = () => System.nanoTime()) extends SparkListener {
  import KeyClaims._

  private val claims = new ConcurrentHashMap[(String, Long), Claim]

  /** @param apart none: as it would be without a planner */
  def claim(key: OperatorKey, apart: Option[Boolean], seconds: Double): Unit = {
    val place = (key.runId, key.operatorId)
    if (seconds > 0) claims.put(place, Claim(apart, clock() + (seconds * 1e9).toLong))
    else claims.remove(place)
    ()
  }

  /** What is claimed now of an operator's next batch. */
  def apart(runId: String, operatorId: Long): Option[Boolean] =
    Option(claims.get((runId, operatorId))).filter(_.untilNs - clock() > 0).flatMap(_.apart)

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case over: QueryTerminatedEvent =>
      claims.keySet().removeIf(_._1 == over.runId.toString)
      ()
    case _ => ()
  }
}

private object KeyClaims {
  final case class Claim(apart: Option[Boolean], untilNs: Long)
}
