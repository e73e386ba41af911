package org.apache.spark.sql.laneshift.lane

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.util.UninterruptibleThread

/** How lanes begin their bodies. */
private[laneshift] object LaneBody {

  /** The body's results, from its beginning.
    *
    * With functions in Python, the body asks Spark for a Python worker here. Spark takes an interrupted wait for one for a daemon
    * that does not answer, ends it, and with it all Python workers of the executor, those of other queries, too. So a lane that
    * is to end while its body begins is interrupted as soon as it has begun.
    */
  def begin(
      body: RDD[InternalRow],
      split: Partition,
      context: TaskContext,
      usesPython: Boolean
  ): Iterator[InternalRow] = Thread.currentThread match {
    case thread: UninterruptibleThread if usesPython =>
      thread.runUninterruptibly(body.iterator(split, context))
    case _ => body.iterator(split, context)
  }
}
