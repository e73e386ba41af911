package org.apache.spark.sql.laneshift.conf

import scala.jdk.CollectionConverters._

/** What this jar was built from. */
object BuildInfo {
  private val properties: Map[String, String] = {
    val loaded = new java.util.Properties
    val in = getClass.getClassLoader.getResourceAsStream("laneshift-build.properties")
    if (in != null)
      try loaded.load(in)
      finally in.close()
    loaded.asScala.toMap
  }

  val version: String = properties.getOrElse("version", "unknown")
}
