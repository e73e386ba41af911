package org.apache.spark.sql.laneshift.conf

/** Options of leases. */
object LeasesConf extends OptionGroup("spark.sql.laneshift.remote.") {

  val Leases =
    flag(
      "leases",
      default = false,
      "A Spark task holds the core of each lane on another executor, in micro-batches."
    )(
      "Holds a core of the other executor for each lane that a partition is to have there, by a Spark task that waits, so that Spark " +
        "gives the core to no other job: for micro-batch queries that share their executors with other jobs. Without a free core " +
        "within 5 s the lane is given up, and tasks of streaming queries always come first. Real-time queries have no lanes on " +
        "other executors with it, and end the leases of others. Read when a query starts."
    )
}
