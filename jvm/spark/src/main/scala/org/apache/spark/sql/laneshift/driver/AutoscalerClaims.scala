package org.apache.spark.sql.laneshift.driver

import scala.collection.mutable

/** An autoscaler's claim to drive one run of a query, or all queries if `runId` is empty. */
final case class AutoscalerClaim(autoscaler: String, policy: String, runId: String, untilNs: Long) {
  def overlaps(other: AutoscalerClaim): Boolean =
    autoscaler != other.autoscaler && (runId.isEmpty || other.runId.isEmpty || runId == other.runId)
}

/** Which autoscalers drive this application's queries, so that no query has two. A claim lapses unless its autoscaler renews
  * it: a new autoscaler takes over from one that has died.
  */
private[laneshift] final class AutoscalerClaims(clock: () => Long = () => System.nanoTime()) {
  private val claims = mutable.Map.empty[String, AutoscalerClaim]

  /** Takes or renews a claim for `seconds`; Left: the claim that is in its way, and for how many more seconds. */
  def claim(
      autoscaler: String,
      policy: String,
      runId: String,
      seconds: Double
  ): Either[(AutoscalerClaim, Double), Unit] =
    synchronized {
      val now = clock()
      claims.filterInPlace((_, c) => c.untilNs - now > 0)
      val wanted = AutoscalerClaim(autoscaler, policy, runId, now + (seconds * 1e9).toLong)
      claims.values.find(_.overlaps(wanted)) match {
        case Some(other) => Left(other -> (other.untilNs - now) / 1e9)
        case None => Right(claims.update(autoscaler, wanted))
      }
    }

  def holds(autoscaler: String): Boolean =
    synchronized(claims.get(autoscaler).exists(_.untilNs - clock() > 0))

  def release(autoscaler: String): Unit = synchronized(claims.remove(autoscaler))
}
