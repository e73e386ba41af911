package org.apache.spark.sql.laneshift

import java.nio.file.Paths

import laneshift.testing.LimitedSuite

class ConfigurationPageSuite extends LimitedSuite {

  test("docs/configuration.md is what the entries say") {
    val page = Paths.get(System.getProperty("laneshift.repo"), "docs", "configuration.md")
    assert(
      ConfigurationPage.isCurrent(page),
      s"$page is out of date; update it with: scripts/sbt 'spark/Test/runMain ${ConfigurationPage.getClass.getName.stripSuffix("$")} $page'"
    )
  }
}
