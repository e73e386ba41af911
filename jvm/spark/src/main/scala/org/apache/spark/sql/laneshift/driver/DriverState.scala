package org.apache.spark.sql.laneshift.driver

/** Whether the plugin runs in this process's driver. */
private[laneshift] object DriverState {
  @volatile private var loaded = false

  def isLoaded: Boolean = loaded
  def started(): Unit = loaded = true
  def stopped(): Unit = loaded = false
}
