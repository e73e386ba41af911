package laneshift.lane

/** How many rows a deal gets, by what deals have taken. Functions in Python begin anew with each deal, and load then what they need:
  * that may take longer than all its rows, and a deal takes ten times as long.
  *
  * What a deal takes once is told from what its rows take by two deals that differ in rows. If it is much, a second pair has to say
  * so, too, and it is never more than the shortest deal has taken: times vary for other reasons. Until it is known all is taken for
  * the rows', and the next deal is not much smaller.
  *
  * @param nsPerRow what a row has taken, with its part of the deal's beginning; 0 until the first deal is over
  * @param rowsPerDeal as many as are worth a lane's while, so that lanes end together and answers come soon
  */
final case class DealCost private (
    nsPerRow: Double,
    rowsPerDeal: Long,
    private[lane] val start: DealCost.Start
) {
  import DealCost._

  /** A lane has answered for so many rows, in so much time of its own. */
  private[lane] def and(work: DealWork, rows: Int, ns: Long): DealCost = {
    val now = Took(rows, ns.toDouble)
    val known = if (work.readsAhead) start.and(now, work.worthNs) else start
    // Of small deals, a batch's last ones, most is their beginning.
    val weight = work.learning * math.min(1.0, rows.toDouble / rowsPerDeal)
    val perRow = if (nsPerRow == 0.0) now.perRow else nsPerRow + weight * (now.perRow - nsPerRow)
    val wanted = math.max(work.worthNs.toDouble, Shares * known.ns) / perRow
    val least = if (work.readsAhead && !known.isCertain) rowsPerDeal / AtOnce else 1L
    DealCost(perRow, math.max(math.max(1L, least), math.min(Most, wanted.toLong)), known)
  }
}

object DealCost {

  /** Before the first deal. */
  def unknown(work: DealWork): DealCost = DealCost(0.0, work.firstRows.toLong, Start())

  /** What a deal takes once, by the last two that differ in rows. */
  private[lane] final case class Start(
      ns: Double = 0.0,
      isKnown: Boolean = false,
      isSuspected: Boolean = false,
      shortestNs: Double = Double.MaxValue,
      last: Took = Took(0, 0.0),
      other: Took = Took(0, 0.0)
  ) {
    def isCertain: Boolean = isKnown && !isSuspected

    def and(now: Took, worthNs: Long): Start = {
      val shortest = math.min(shortestNs, now.ns)
      val before = if (last.differs(now)) last else other
      val next =
        if (!before.differs(now)) this
        else {
          val perRow = math.max(0.0, math.min((now.ns - before.ns) / (now.rows - before.rows), now.perRow))
          val found = now.ns - perRow * now.rows
          val isMuch = Shares * found > worthNs
          if (!isMuch || isSuspected) copy(ns = found, isKnown = true, isSuspected = isMuch)
          else copy(isSuspected = isMuch)
        }
      next.copy(ns = math.min(next.ns, shortest), shortestNs = shortest, last = now, other = before)
    }
  }

  /** A deal takes so many times as long as it takes to begin one, or longer. */
  private val Shares = 10

  /** Deals of which one has less than this part of the other's rows tell the two apart. */
  private val Differs = 0.8

  /** How many times as small a deal may be as the last one, while that is a guess. */
  private val AtOnce = 4
  private val Most = 1000000L

  private[lane] final case class Took(rows: Int, ns: Double) {
    def perRow: Double = math.max(1.0, ns / rows)
    def differs(that: Took): Boolean =
      rows > 0 && math.min(rows, that.rows) < Differs * math.max(rows, that.rows)
  }
}
