package org.apache.spark.sql.laneshift.driver

import org.apache.spark.scheduler.SparkListenerEvent

/** What the plugin knows in the driver of one application. The plugin's init makes it and its shutdown drops it, whole: the next
  * application of the process starts with nothing.
  *
  * @param post writes Spark's event log
  */
private[laneshift] final class DriverState(
    post: SparkListenerEvent => Unit,
    val executors: ExecutorDirectory = new ExecutorDirectory,
    nowNs: () => Long = () => System.nanoTime(),
    lookMs: Long = Looks.EveryMs
) {
  val tenants = new Tenants
  val runs = new Runs(this, nowNs)
  val claims = new AutoscalerClaims
  val presses = new Presses
  val decisions = new Decisions(d => if (d.changes.nonEmpty || d.error.nonEmpty) post(LaneshiftDecided(d)))
  val cluster = new SparkExecutors
  val demand = new ExecutorDemand(executors, claims.holds, decisions.note(DriverState.OnDemand, _), cluster)
  val snapshots = new SnapshotMemory
  val journal = new Journal(post)
  val looks = new Looks(this, lookMs)

  /** Every query that runs. Asks executors: what a command has done shows at once. */
  def views(): Seq[QueryView] = askViews()()

  /** Asks at once; what this gives waits for the answers. */
  def askViews(): () => Seq[QueryView] = {
    val partitions = executors.askPartitions()
    () => QueryView.of(runs.all, partitions())
  }

  @volatile private var control = Option.empty[ControlProcess]

  /** Starts what runs beside the driver for as long as this is there. */
  def start(process: ControlProcess): Unit = {
    control = Some(process)
    process.start()
  }

  private[driver] def stop(): Unit =
    try {
      looks.stop()
      runs.stop()
      presses.stop()
    } finally control.foreach(_.stop())
}

private[laneshift] object DriverState {

  /** Who says in the tab what becomes of executors on demand. */
  private val OnDemand = "executors"

  @volatile private var current = Option.empty[DriverState]

  /** That of the application that runs in this process, if the plugin is loaded there. */
  def get: Option[DriverState] = current

  /** One that is there already is of an application that failed to start: Spark shuts no plugin down whose neighbour's init has
    * thrown.
    */
  def start(post: SparkListenerEvent => Unit): DriverState = synchronized {
    current.foreach(_.stop())
    val made = new DriverState(post)
    current = Some(made)
    made
  }

  def stop(state: DriverState): Unit = synchronized {
    try state.stop()
    finally if (current.contains(state)) current = None
  }
}
