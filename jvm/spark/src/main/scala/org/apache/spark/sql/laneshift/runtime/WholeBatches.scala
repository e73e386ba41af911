package org.apache.spark.sql.laneshift.runtime

/** The newest batches of one partition that had the same lanes from their first row on, one after the other. The partition's lock
  * guards it.
  */
private[runtime] final class WholeBatches {

  /** What they had, and how many they are; 0 of both if the last one's lanes changed in its midst. */
  var lanes = 0
  var count = 0

  /** What all batches took beyond their samples. */
  var unsampledNs = 0L

  private var sampledNs = 0L
  private var lastId = -1L
  private var rates = (0.0, 0.0)

  /** So much of the batch that runs was sampled. */
  def sampled(ns: Long): Unit = sampledNs += ns

  /** Before the next batch begins: the last one that had rows. Whether it is a new one. */
  def add(batch: BatchRecord): Boolean = {
    val isNew = batch.batchId != lastId
    if (isNew) {
      lastId = batch.batchId
      unsampledNs += math.max(0L, batch.tookNs - sampledNs)
      val isAlike = batch.isWhole && batch.lanes == lanes
      count = if (isAlike) count + 1 else if (batch.isWhole) 1 else 0
      lanes = if (batch.isWhole) batch.lanes else 0
      rates = (batch.rowsPerS, if (isAlike) rates._1 else 0.0)
    }
    sampledNs = 0L
    isNew
  }

  /** The better rate of the last two. */
  def rowsPerS: Double = math.max(rates._1, rates._2)
}
