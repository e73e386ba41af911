package org.apache.spark.sql.laneshift

import java.nio.file.Paths

import laneshift.testing.LimitedSuite

class ConfigurationPageSuite extends LimitedSuite {

  test("docs/configuration.md and Python's options are what the entries say") {
    val repository = Paths.get(System.getProperty("laneshift.repo"))
    val old = ConfigurationPage.outdated(repository)
    assert(
      old.isEmpty,
      s"out of date; update them with: scripts/sbt 'spark/Test/runMain ${ConfigurationPage.getClass.getName.stripSuffix("$")} $repository'"
    )
  }
}
