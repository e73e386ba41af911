package org.apache.spark.sql.laneshift.runtime

/** What uses an executor's cores now, and what has gone between its partitions and their lanes on other executors since it started.
  *
  * @param tasks Spark's tasks, of whichever query or job
  * @param homeLanes lanes of its own partitions, beyond the first of each, which its task's core is for
  * @param hostLanes lanes of other executors' partitions
  * @param keptBytes rows that were sent to lanes elsewhere and are not answered for
  */
final case class ExecutorView(
    tasks: Int,
    homeLanes: Int,
    hostLanes: Int,
    keptBytes: Long,
    rowsSent: Long,
    frames: Long,
    stateReads: Long,
    bytesSent: Long,
    bytesReceived: Long,
    lostHosts: Long
)

object ExecutorView {

  /** Of an executor that has none of these. */
  val idle: ExecutorView = ExecutorView(0, 0, 0, 0L, 0L, 0L, 0L, 0L, 0L, 0L)

  private[runtime] def of(runtime: ElasticRuntime): ExecutorView = {
    val hosted = runtime.hostLanes.running
    val traffic = runtime.hostLanes.traffic
    // Of open sessions nobody has summed up the bytes yet.
    val open = runtime.all.flatMap(_.elsewhere)
    ExecutorView(
      runtime.cores.taskCount,
      math.max(0, runtime.cores.lanes - hosted),
      hosted,
      open.map(_.keptBytes).sum,
      traffic.rowsSent.sum,
      traffic.frames.sum,
      traffic.stateReads.sum,
      traffic.bytesSent.sum + open.map(_.bytesSent).sum,
      traffic.bytesReceived.sum + open.map(_.bytesReceived).sum,
      traffic.lostHosts.sum
    )
  }
}
