package org.apache.spark.sql.laneshift.workload

/** Decides where a micro-batch ends. Pure: the rows that are due are a parameter. */
private[workload] object BatchPlanner {

  /** The offset reached from `from` by taking rows of the source in their order until the first `upTo` rows
    * are taken or `atMost` rows were added. Partitions that are ahead of the others (after Real-time Mode,
    * where each runs at its own pace) wait for them.
    */
  def advance(from: WorkloadOffset, spec: DealtRows, upTo: Long, atMost: Long): WorkloadOffset = {
    def at(rows: Long) = from.next.indices.map(p => Math.max(from.next(p), spec.dealt(rows, p)))
    val start = from.rows
    val goal = if (atMost > WorkloadSpec.Endless - start) WorkloadSpec.Endless else start + atMost
    var low = 0L
    var high = Math.min(upTo, goal)
    // One more row of the source adds one row or none, so the limit is met exactly.
    while (low < high) {
      val middle = low + (high - low + 1) / 2
      if (at(middle).sum <= goal) low = middle else high = middle - 1
    }
    WorkloadOffset(from.seed, at(low))
  }
}
