package org.apache.spark.sql.laneshift.driver

import scala.collection.mutable

/** A scheduler's claim to drive one run of a query, or all queries if `runId` is empty. */
final case class SchedulerClaim(scheduler: String, policy: String, runId: String, untilNs: Long) {
  def overlaps(other: SchedulerClaim): Boolean =
    scheduler != other.scheduler && (runId.isEmpty || other.runId.isEmpty || runId == other.runId)
}

/** Which schedulers drive this application's queries, so that no query has two. A claim lapses unless its scheduler renews
  * it: a new scheduler takes over from one that has died.
  */
private[laneshift] final class SchedulerClaims(clock: () => Long = () => System.nanoTime()) {
  private val claims = mutable.Map.empty[String, SchedulerClaim]

  /** Takes or renews a claim for `seconds`; Left: the claim that is in its way, and for how many more seconds. */
  def claim(
      scheduler: String,
      policy: String,
      runId: String,
      seconds: Double
  ): Either[(SchedulerClaim, Double), Unit] =
    synchronized {
      val now = clock()
      claims.filterInPlace((_, c) => c.untilNs - now > 0)
      val wanted = SchedulerClaim(scheduler, policy, runId, now + (seconds * 1e9).toLong)
      claims.values.find(_.overlaps(wanted)) match {
        case Some(other) => Left(other -> (other.untilNs - now) / 1e9)
        case None => Right(claims.update(scheduler, wanted))
      }
    }

  def holds(scheduler: String): Boolean =
    synchronized(claims.get(scheduler).exists(_.untilNs - clock() > 0))

  def release(scheduler: String): Unit = synchronized(claims.remove(scheduler))
}
