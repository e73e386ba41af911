package org.apache.spark.sql.laneshift.driver

/** Takes lanes off executors on which they should not be any more: Spark is about to give an executor up, or needs its cores. Its
  * thread is there from the first time on that somebody wants lanes on another executor.
  */
private[laneshift] final class HostWatch(executors: ExecutorDirectory, everyMs: Long = HostWatch.EveryMs) {
  private var thread = Option.empty[Repeating]

  /** Of executors that had too many lanes at the last look, how many. */
  private var before = Map.empty[String, Int]

  def begin(): Unit = synchronized {
    if (thread.isEmpty) {
      val made = new Repeating("laneshift hosts", everyMs)(look())
      made.start()
      thread = Some(made)
    }
  }

  def stop(): Unit = synchronized(thread.foreach(_.stop()))

  /** An executor that leaves is left at once; one that has too few cores only if it had at the look before, too: a task may be short. */
  private[driver] def look(): Unit = {
    val loads = executors.inventory()
    val now = loads.map(e => e.id -> e.surplusLanes).toMap
    loads.foreach { e =>
      val lanes = if (e.leaving) e.surplusLanes else math.min(e.surplusLanes, before.getOrElse(e.id, 0))
      if (lanes > 0) executors.leave(e.id, lanes, if (e.leaving) "is leaving" else "needs its cores")
    }
    before = now
  }
}

private object HostWatch {
  val EveryMs = 1000L
}
