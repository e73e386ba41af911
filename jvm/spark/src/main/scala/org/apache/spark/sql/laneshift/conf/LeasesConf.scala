package org.apache.spark.sql.laneshift.conf

import org.apache.spark.internal.config.ConfigEntry
import org.apache.spark.sql.internal.SQLConf

/** Options of leases. */
object LeasesConf {
  // Not by LaneshiftConf.Prefix, as in ControlConf.
  private val Prefix = "spark.sql.laneshift.remote."
  private val Since = "0.1.0"

  val Leases: ConfigEntry[Boolean] = SQLConf
    .buildConf(Prefix + "leases")
    .doc(
      "Holds a core of the other executor for each lane that a partition is to have there, by a Spark task that waits, so that Spark " +
        "gives the core to no other job: for micro-batch queries that share their executors with other jobs. Without a free core " +
        "within 5 s the lane is given up, and tasks of streaming queries always come first. Real-time queries have no lanes on " +
        "other executors with it, and end the leases of others. Read when a query starts."
    )
    .version(Since)
    .booleanConf
    .createWithDefault(false)

  val all: Seq[ConfigEntry[_]] = Seq(Leases)
}
