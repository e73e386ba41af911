package org.apache.spark.sql.laneshift.conf

import java.util.concurrent.TimeUnit

import org.apache.spark.internal.config.ConfigEntry
import org.apache.spark.sql.internal.SQLConf

/** Options of executors on demand. */
object ExecutorsConf {
  // Not by LaneshiftConf.Prefix, as in ControlConf.
  private val Prefix = "spark.sql.laneshift.executors."
  private val Since = "0.1.0"

  val Max: ConfigEntry[Int] = SQLConf
    .buildConf(Prefix + "max")
    .doc(
      "The most executors that the application may have by decisions of its scheduler, those there at start included: it asks Spark " +
        "for more while its policy has work for their cores, and gives those back that it has asked for. 0 asks for none. Not " +
        "beside spark.dynamicAllocation.enabled. Read when the application starts."
    )
    .version(Since)
    .intConf
    .checkValue(n => n >= 0 && n <= 10000, "allowed are 0 (ask for none) to 10000 executors")
    .createWithDefault(0)

  val RestTime: ConfigEntry[Long] = SQLConf
    .buildConf(Prefix + "restTime")
    .doc(
      "How long an executor that was asked for has not been needed when it is given back, in milliseconds unless a unit is given. " +
        "Read when the application starts."
    )
    .version(Since)
    .timeConf(TimeUnit.MILLISECONDS)
    .checkValue(n => n >= 1000 && n <= 86400000L, "allowed are 1s to 24h")
    .createWithDefault(60000L)

  val all: Seq[ConfigEntry[_]] = Seq(Max, RestTime)
}
