package laneshift.lane

/** How many rows a deal gets, by what deals have taken. Functions in Python begin anew with each deal, and load then what they need:
  * that may take longer than all its rows, and a deal takes ten times as long.
  *
  * What a deal takes once is told from what its rows take by two deals that differ in rows. If it is much, a second pair has to say
  * so, too, and it is never more than the shortest deal has taken: times vary for other reasons. Until it is known all is taken for
  * the rows', and the next deal is not much smaller. The deals' lock guards it.
  */
private[lane] final class DealCost(work: DealWork) {
  import DealCost._

  private var startNs = 0.0
  private var isKnown = false
  private var isSuspected = false
  private var shortestNs = Double.MaxValue
  private var last = Took(0, 0.0)
  private var other = Took(0, 0.0)

  /** What a row has taken, with its part of the deal's beginning; 0 until the first deal is over. */
  var nsPerRow: Double = 0.0

  /** As many as are worth a lane's while, so that lanes end together and answers come soon. */
  var rowsPerDeal: Long = work.firstRows.toLong

  /** A lane has answered for so many rows, in so much time of its own. */
  def learn(rows: Int, ns: Long): Unit = {
    val now = Took(rows, ns.toDouble)
    if (work.readsAhead) learnStart(now)
    nsPerRow = if (nsPerRow == 0.0) now.perRow else nsPerRow + work.learning * (now.perRow - nsPerRow)
    val wanted = math.max(work.worthNs.toDouble, Shares * startNs) / nsPerRow
    val least = if (work.readsAhead && (!isKnown || isSuspected)) rowsPerDeal / AtOnce else 1L
    rowsPerDeal = math.max(math.max(1L, least), math.min(Most, wanted.toLong))
  }

  private def learnStart(now: Took): Unit = {
    shortestNs = math.min(shortestNs, now.ns)
    if (last.differs(now)) other = last
    if (other.differs(now)) {
      val perRow = math.max(0.0, math.min((now.ns - other.ns) / (now.rows - other.rows), now.perRow))
      val found = now.ns - perRow * now.rows
      val isMuch = Shares * found > work.worthNs
      if (!isMuch || isSuspected) {
        startNs = found
        isKnown = true
      }
      isSuspected = isMuch
    }
    startNs = math.min(startNs, shortestNs)
    last = now
  }
}

private[lane] object DealCost {

  /** A deal takes so many times as long as it takes to begin one, or longer. */
  private val Shares = 10

  /** Deals of which one has less than this part of the other's rows tell the two apart. */
  private val Differs = 0.8

  /** How many times as small a deal may be as the last one, while that is a guess. */
  private val AtOnce = 4
  private val Most = 1000000L

  private final case class Took(rows: Int, ns: Double) {
    def perRow: Double = math.max(1.0, ns / rows)
    def differs(that: Took): Boolean =
      rows > 0 && math.min(rows, that.rows) < Differs * math.max(rows, that.rows)
  }
}
