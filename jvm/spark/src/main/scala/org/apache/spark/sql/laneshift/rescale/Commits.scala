package org.apache.spark.sql.laneshift.rescale

import scala.collection.immutable.TreeMap

import org.apache.spark.sql.execution.streaming.state.RecordedBatch

/** The batches that a query has committed since its rescale began: Spark's own log keeps some of the newest only. The query's
  * thread adds to it, and whoever brings the new stores up to date reads it and forgets what they have.
  *
  * @param first the last batch that had ended when it began
  */
private[rescale] final class Commits(checkpoint: Checkpoint, first: Long) {
  private var batches = TreeMap(first -> read(first))

  /** All up to `batch` have ended. On the query's thread, before Spark forgets one. */
  def add(batch: Long): Unit = synchronized {
    (newest + 1 to batch).foreach(b => batches += b -> read(b))
  }

  def newest: Long = synchronized(batches.lastKey)

  def last: RecordedBatch = synchronized(batches.last._2)

  def after(batch: Long): Seq[RecordedBatch] = synchronized(batches.rangeFrom(batch + 1).values.toSeq)

  /** The newest stays. */
  def forget(upTo: Long): Unit = synchronized { batches = batches.rangeFrom(math.min(upTo + 1, newest)) }

  private def read(batch: Long) = RecordedBatch(batch + 1, checkpoint.commit(batch).stateUniqueIds)
}
