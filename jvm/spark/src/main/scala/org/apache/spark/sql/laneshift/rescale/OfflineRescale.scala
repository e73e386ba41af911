package org.apache.spark.sql.laneshift.rescale

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession

/** What an offline rescale has done. */
private[laneshift] final case class OfflineRescaled(
    batch: Long,
    from: Int,
    to: Int,
    rows: Option[Long],
    buildMs: Long,
    checkMs: Long,
    takeOverMs: Long
)

/** Gives the checkpoint of a query that does not run another number of state partitions. The new stores are built beside the old
  * ones and compared with them, row by row, before the checkpoint goes over: until then it is as it was.
  */
private[laneshift] object OfflineRescale {

  def run(spark: SparkSession, location: String, partitions: Int, check: Boolean): OfflineRescaled = {
    if (partitions < 1) throw new NotRescalable.BadNumber(partitions, None)
    val checkpoint = Checkpoint.at(location, spark)
    requireStopped(spark, checkpoint)
    val from = requireFit(spark, checkpoint, partitions)
    // Another application's may be under way, so nothing of it goes before this one could begin.
    if (!TakeOver.isCutShort(checkpoint)) requireEnded(checkpoint)
    TakeOver.undo(checkpoint)
    val last = requireEnded(checkpoint)
    checkpoint.requireRoom()
    val session = LiveRescale.session(spark, checkpoint, last)
    val twin = new Twin(checkpoint, session, partitions, RescaleBudget.Full)
    val began = System.nanoTime()
    try {
      twin.remove()
      twin.build(new Commits(checkpoint, last), staysOpen = false)
      twin.seal()
      val built = System.nanoTime()
      val rows =
        Option.when(check)(new StateCheck(session, checkpoint, last).same(twin.root.toString, partitions))
      val checked = System.nanoTime()
      if (requireEnded(checkpoint) != last)
        throw new NotRescalable.Unfit(s"a query runs on ${checkpoint.root}: it has ended a batch meanwhile")
      val batch = new TakeOver(checkpoint, twin).run(last, partitions)
      def ms(a: Long, b: Long) = (b - a) / 1000000
      OfflineRescaled(
        batch,
        from,
        partitions,
        rows,
        ms(began, built),
        ms(built, checked),
        ms(checked, System.nanoTime())
      )
    } catch {
      case e: Throwable =>
        TakeOver.undo(checkpoint)
        throw e
    }
  }

  /** A query of another application cannot be seen, unless it ends a batch meanwhile. */
  private def requireStopped(spark: SparkSession, checkpoint: Checkpoint): Unit =
    spark.sharedState.activeStreamingQueries.values().forEach { query =>
      if (checkpoint.fs.makeQualified(new Path(query.resolvedCheckpointRoot)) == new Path(checkpoint.root))
        throw new NotRescalable.Unfit(
          s"the query ${query.id} runs on it: rescale the query, or stop it first"
        )
    }

  /** How many partitions it has now. */
  private def requireFit(spark: SparkSession, checkpoint: Checkpoint, partitions: Int): Int = {
    val last = lastEnded(checkpoint)
    checkpoint.requireFit(last, spark.sparkContext)
    checkpoint.requireKeysShown(last)
    val from = checkpoint.partitions(last)
    if (from == partitions) throw new NotRescalable.BadNumber(partitions, Some(from))
    from
  }

  private def lastEnded(checkpoint: Checkpoint): Long =
    checkpoint.lastCommitted.getOrElse(throw new NotRescalable.Unfit("no batch of it has ended yet"))

  private def requireEnded(checkpoint: Checkpoint): Long = {
    val last = lastEnded(checkpoint)
    checkpoint.lastStarted.filter(_ > last).foreach { open =>
      throw new NotRescalable.Unfit(
        s"batch $open has begun and not ended: let the query end it, with the trigger availableNow, and stop it then"
      )
    }
    last
  }
}
