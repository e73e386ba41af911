package org.apache.spark.sql.laneshift.runtime

/** The newest batches of one partition that had the same lanes from their first row on, one after the other. The partition's lock
  * guards it.
  */
private[runtime] final class WholeBatches {

  private var alike = 0
  private var lanesOfAll = 0
  private var sampledNs = 0L
  private var beyondNs = 0L
  private var lastId = -1L
  private var lastRate, rateBefore = 0.0

  /** What they had, and how many they are; 0 of both if the last one's lanes changed in its midst. */
  def lanes: Int = lanesOfAll
  def count: Int = alike

  /** What all batches took beyond their samples. */
  def unsampledNs: Long = beyondNs

  /** So much of the batch that runs was sampled. */
  def sampled(ns: Long): Unit = sampledNs += ns

  /** Before the next batch begins: the last one that had rows. Whether it is a new one. */
  def add(batch: BatchRecord): Boolean = {
    val isNew = batch.batchId != lastId
    if (isNew) {
      lastId = batch.batchId
      beyondNs += math.max(0L, batch.tookNs - sampledNs)
      val isAlike = batch.isWhole && batch.lanes == lanes
      alike = if (isAlike) alike + 1 else if (batch.isWhole) 1 else 0
      lanesOfAll = if (batch.isWhole) batch.lanes else 0
      rateBefore = if (isAlike) lastRate else 0.0
      lastRate = batch.rowsPerS
    }
    sampledNs = 0L
    isNew
  }

  /** The better rate of the last two. */
  def rowsPerS: Double = math.max(lastRate, rateBefore)
}
