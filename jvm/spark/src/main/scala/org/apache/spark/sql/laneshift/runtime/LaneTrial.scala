package org.apache.spark.sql.laneshift.runtime

/** Whether more than one lane pays for an operator, as batches have shown: with lanes, and then with one lane again, both after
  * whatever warms up. Lanes that pay stay, and are compared again now and then; others are tried again, less and less often. Not
  * every operator gains: what a row takes may be nothing against the way to a lane, or be spent elsewhere in the stage.
  */
private[runtime] final class LaneTrial {
  import LaneTrial._

  private var refusals = 0
  private var notBefore = 0L
  private var disappointing = 0

  /** The first batch with lanes; it starts threads and Python workers, and does not count. The next one does. */
  private var since = NotTried

  /** The batch that is to run on one lane next. */
  private var stockAt = NotTried
  private var stockEvery = FirstStock
  private var compared = false
  private var lastJudged = Long.MinValue

  /** True if a partition may have lanes in this batch. */
  def allows(batchId: Long): Boolean = batchId >= notBefore && batchId != stockAt

  /** A partition's batch on lanes took `gain` times less than one lane took the last time. */
  def onLanes(batchId: Long, gain: Double): Unit = {
    if (since == NotTried) since = batchId
    else if (batchId > since && stockAt == NotTried) stockAt = batchId + 1
    if (batchId > since && batchId > lastJudged) {
      lastJudged = batchId
      // What one lane took before the first comparison, it took while everything was slow.
      if (gain >= (if (compared) Worth else 1.0)) disappointing = 0
      else {
        disappointing += 1
        if (disappointing >= (if (compared) 3 else 1)) refuse(batchId)
      }
    }
  }

  /** A partition's batch on one lane took `gain` times what lanes took the last time. */
  def onOneLane(batchId: Long, gain: Double): Unit = if (batchId == stockAt) {
    if (gain >= Worth) {
      compared = true
      refusals = 0
      stockEvery = math.min(StockEvery, stockEvery * 4)
      stockAt = batchId + stockEvery
    } else refuse(batchId)
  }

  private def refuse(batchId: Long): Unit = {
    notBefore = batchId + 1 + (FirstRest << math.min(refusals, Doublings))
    refusals += 1
    disappointing = 0
    compared = false
    since = NotTried
    stockAt = NotTried
    stockEvery = FirstStock
  }
}

private[runtime] object LaneTrial {

  /** Less of a gain than this is none. */
  val Worth = 1.1

  /** Batches until lanes are tried again after they did not pay; doubles each time, six times at most. */
  val FirstRest = 16L
  private val Doublings = 6

  /** Batches from the first comparison to the second; then four times as many each time, up to the last. */
  val FirstStock = 2L
  val StockEvery = 256L
  private val NotTried = -1L
}
