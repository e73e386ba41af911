package org.apache.spark.sql.laneshift

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}

import org.apache.spark.sql.laneshift.conf.LaneshiftConf

/** Writes docs/configuration.md from the entries, so that the page cannot say anything else. */
object ConfigurationPage {

  def text: String = {
    val rows = LaneshiftConf.all.sortBy(_.key).map { e =>
      s"| `${e.key}` | `${e.defaultValueString}` | ${e.doc.replace("|", "\\|")} | ${e.version} |"
    }
    s"""# Configuration
      |
      |Generated from the plugin's configuration entries: do not edit. Set by `laneshift.configure(builder, lanes=4, ...)`, in
      |`spark-submit --conf`, or in the session before a query starts; a running query keeps what it started with. A wrong value
      |is refused when it is set, an unknown key under `spark.sql.laneshift.` when the session or query starts.
      |
      || option | default | what it does | since |
      ||---|---|---|---|
      |${rows.mkString("\n|")}
      |
      |`${LaneshiftConf.SchedulerParam}NAME=value` sets parameter NAME of the policy (`laneshift policies NAME` lists them).
      |
      |Besides these: `spark.plugins=${classOf[LaneshiftPlugin].getName}` switches laneshift on, and
      |`spark.sql.streaming.stateStore.providerClass` must be Spark's RocksDB provider for a query to be elastic:
      |the plugin sets that where nothing else is set, and a checkpoint keeps the provider that it was started with.
      |""".stripMargin
  }

  def main(args: Array[String]): Unit = Files.write(Paths.get(args(0)), text.getBytes(UTF_8))

  /** True if the page at `path` is what the entries say. */
  def isCurrent(path: Path): Boolean =
    Files.exists(path) && new String(Files.readAllBytes(path), UTF_8) == text
}
