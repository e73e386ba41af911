package org.apache.spark.sql.laneshift.conf

import scala.jdk.CollectionConverters._

/** What this jar was built from, and how it is switched on. */
object BuildInfo {

  /** What `spark.plugins` has to name. */
  val PluginClass = "org.apache.spark.sql.laneshift.LaneshiftPlugin"

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
