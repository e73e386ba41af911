package org.apache.spark.sql.laneshift.conf

/** Options of the fault mode, with which tests and users prove that a query's results are exact whatever its lanes do. */
object MotionConf extends OptionGroup(OptionGroup.Root) {
  private val InTests = "It is part of the fault mode for tests; leave it out in production."

  val Mode =
    oneOf(
      "never",
      "random",
      "always"
    )("motion", "never", "It is a fault mode for tests; leave it out in production.")(
      "Fault mode for tests: 'always' keeps handing off shards and changing lane counts at random while queries run, " +
        "'random' does so now and then, 'never' is the normal operation. Results stay exact, throughput does not."
    )

  val RemoteLanes =
    whole("motion.remoteLanes", 0, 8, 0, InTests)(
      "Fault mode: the most lanes of each partition that are reached over the network like those of other executors, though they run " +
        "in the partition's own process; shards move to and from them, and their sessions end and begin."
    )

  val Tasks =
    flag("motion.tasks", default = false, InTests)(
      "Fault mode: state partitions are computed in another number of tasks in every batch."
    )

  val Seed =
    anyLong("motion.seed", 0, "Any number does; the same one repeats a run's moves.")(
      "Seed of the fault mode's random choices."
    )

  val Interval =
    time("motion.interval", 1, 60000, 20, "20ms moves 50 times a second.")(
      "Time between two moves of the fault mode, in milliseconds unless a unit is given."
    )
}
