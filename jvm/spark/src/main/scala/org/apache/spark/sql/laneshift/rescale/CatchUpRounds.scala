package org.apache.spark.sql.laneshift.rescale

/** Whether the new stores are as near to the query as they get: then it may wait for the rest. While they catch up with some
  * batches the query has others, which are the next round's; where a round takes longer than a batch, there always are some.
  */
private[rescale] final class CatchUpRounds {
  import CatchUpRounds._

  private var rounds, stuck = 0
  private var before = Long.MaxValue

  /** After a round that has brought in so many batches, none if there were none, in so long. */
  def isNear(batches: Long, tookNs: Long): Boolean = {
    if (batches > 0) {
      rounds += 1
      if (batches >= before) stuck += 1
      before = batches
    }
    tookNs < ShortNs || batches <= 1 || stuck >= MostStuck || rounds >= Most
  }
}

private[rescale] object CatchUpRounds {

  /** A catch-up that takes no longer is one that the query may wait for. */
  val ShortNs: Long = 500L * 1000 * 1000

  /** So many rounds that had no fewer batches to bring in than the one before: it gets no nearer. */
  val MostStuck = 2

  /** After so many the query waits for it anyway. */
  val Most = 20
}
