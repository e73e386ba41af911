package org.apache.spark.sql.laneshift.conf

/** Options of executors on demand. */
object ExecutorsConf extends OptionGroup(OptionGroup.Root + "executors.") {
  import OptionGroup.Hour

  val Max =
    whole(
      "max",
      1,
      10000,
      0,
      "Those that the application has without an autoscaler count.",
      0 -> "to ask for none"
    )(
      "The most executors that the application may have by decisions of its autoscaler, those there at start included: it asks Spark " +
        "for more while its policy has work for their cores, and gives those back that it has asked for. 0 asks for none. Not " +
        "beside spark.dynamicAllocation.enabled. Read when the application starts."
    )

  val RestTime =
    time("restTime", 1000, 24 * Hour, 60000, "60s suits most clusters.")(
      "How long an executor that was asked for has not been needed when it is given back, in milliseconds unless a unit is given. " +
        "Read when the application starts."
    )
}
