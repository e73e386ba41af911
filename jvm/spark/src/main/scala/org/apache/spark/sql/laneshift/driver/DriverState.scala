package org.apache.spark.sql.laneshift.driver

import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.sql.laneshift.rescale.Rescales

/** What the plugin knows in the driver of one application. The plugin's init makes it and its shutdown drops it, whole: the next
  * application of the process starts with nothing.
  *
  * @param post writes Spark's event log
  */
private[laneshift] final class DriverState(
    post: SparkListenerEvent => Unit,
    val executors: ExecutorDirectory = new ExecutorDirectory
) {
  val tenants = new Tenants
  val queries = new QueryInventory(executors, tenants.ended)
  val memories = new PartitionMemories
  val taskWishes = new TaskWishes
  val claims = new SchedulerClaims
  val presses = new Presses
  val keyClaims = new KeyClaims
  val throttle = new SourceThrottle(executors)
  val hosts = new HostWatch(executors)
  val rescales = new Rescales
  val decisions = new Decisions(d => if (d.changes.nonEmpty || d.error.nonEmpty) post(LaneshiftDecided(d)))
  val cluster = new SparkExecutors
  val demand = new ExecutorDemand(executors, claims.holds, decisions.note(DriverState.OnDemand, _), cluster)
  val snapshots = new SnapshotMemory
  val journal = new Journal(queries, executors, post)

  /** Every query that runs. Asks executors: what a command has done shows at once. */
  def views(): Seq[QueryView] = askViews()()

  /** Asks at once; what this gives waits for the answers. */
  def askViews(): () => Seq[QueryView] = {
    val partitions = executors.askPartitions()
    () => QueryView.of(queries.active, partitions())
  }

  private def stop(): Unit = {
    journal.stop()
    throttle.stop()
    hosts.stop()
    demand.stop()
    rescales.stop()
    presses.stop()
  }
}

private[laneshift] object DriverState {

  /** Who says in the tab what becomes of executors on demand. */
  private val OnDemand = "executors"

  @volatile private var current = Option.empty[DriverState]

  /** That of the application that runs in this process, if the plugin is loaded there. */
  def get: Option[DriverState] = current

  def isLoaded: Boolean = current.nonEmpty

  def start(post: SparkListenerEvent => Unit): DriverState = synchronized {
    current.foreach(_.stop())
    val made = new DriverState(post)
    current = Some(made)
    made
  }

  def stop(state: DriverState): Unit = synchronized {
    state.stop()
    if (current.contains(state)) current = None
  }
}
