package org.apache.spark.sql.laneshift.workload.nexmark

/** Who is there at an event, who is hot, and who is drawn: ids of people and auctions. They count up from
  * [[NexmarkIds.FirstId]]. The hot auction, bidder and seller change with every hundred auctions and people.
  */
private[nexmark] final class NexmarkIds(hot: HotShares, draws: Draws) {
  import NexmarkIds._

  def seller(event: Long): Long =
    if (draws.happens(hot.sellers)) FirstId + lastPerson(event) / HotFor * HotFor else person(event)

  def bidder(event: Long): Long =
    if (draws.happens(hot.bidders)) FirstId + lastPerson(event) / HotFor * HotFor + 1 else person(event)

  def auction(event: Long): Long = {
    val last = lastAuction(event)
    if (draws.happens(hot.auctions)) FirstId + last / HotFor * HotFor
    else {
      val oldest = Math.max(last - OpenAuctions, 0)
      FirstId + oldest + draws.below(last - oldest + 1 + Ahead)
    }
  }

  private def person(event: Long): Long = {
    val people = lastPerson(event) + 1
    val active = Math.min(people, ActivePeople)
    FirstId + people - active + draws.below(active + Ahead)
  }
}

private[nexmark] object NexmarkIds {

  val FirstId = 1000L

  /** Auctions that are open at a time, about. */
  val OpenAuctions = 100L

  private val ActivePeople = 1000L

  /** So many ids beyond the last one are drawn, too: their bids come before the auction or person does. */
  private val Ahead = 10L
  private val HotFor = 100L

  /** Number, from 0, of the last person up to and including this event. */
  def lastPerson(event: Long): Long = NexmarkTable.Person.rowsOf(event + 1) - 1

  /** The same of auctions; -1 at event 0. */
  def lastAuction(event: Long): Long = NexmarkTable.Auction.rowsOf(event + 1) - 1
}
