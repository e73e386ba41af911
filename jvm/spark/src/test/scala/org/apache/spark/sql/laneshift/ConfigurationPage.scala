package org.apache.spark.sql.laneshift

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{ObjectMapper, SerializationFeature}

import org.apache.spark.sql.laneshift.conf.LaneshiftConf

/** Writes docs/configuration.md and Python's options.json from the options, so that neither can say anything else. */
object ConfigurationPage {

  private val Page = Paths.get("docs", "configuration.md")
  private val Options = Paths.get("python", "laneshift", "options.json")

  /** The files, from the repository's root, with what has to stand in them. */
  def files: Seq[(Path, String)] = Seq(Page -> text, Options -> json)

  private def json: String = {
    val mapper = new ObjectMapper().configure(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS, true)
    val lines = LaneshiftConf.options.map { o =>
      val values = o.values.json.map {
        case (name, words: Seq[_]) => name -> words.asJava
        case other => other
      }
      val all = Map[String, Any](
        "name" -> o.name,
        "key" -> o.entry.key,
        "default" -> o.entry.defaultValueString,
        "doc" -> o.entry.doc,
        "allowed" -> o.values.allowed,
        "hint" -> o.hint,
        "secret" -> o.isSecret,
        "at_start" -> o.isReadAtStart
      ) ++ values
      mapper.writeValueAsString(all.asJava)
    }
    lines.mkString("[\n", ",\n", "\n]\n")
  }

  private def text: String = {
    val rows = LaneshiftConf.options.sortBy(_.entry.key).map { o =>
      val about = s"${o.entry.doc} Allowed: ${o.values.allowed}."
      s"| `${o.entry.key}` | `${o.entry.defaultValueString}` | ${about.replace("|", "\\|")} | ${o.entry.version} |"
    }
    s"""# Configuration
      |
      |Generated from the plugin's configuration entries: do not edit. Set by `laneshift.configure(builder, lanes=4, ...)`, in
      |`spark-submit --conf`, or in the session before a query starts; a running query keeps what it started with. A wrong value
      |is refused when it is set, an unknown key under `spark.sql.laneshift.` when the session or query starts. Options under
      |`autoscaler`, `control`, `executors`, `lanesPerExecutor` and `remote.port` are read when the application starts: a query of a
      |session that has set another value does not start.
      |
      || option | default | what it does | since |
      ||---|---|---|---|
      |${rows.mkString("\n|")}
      |
      |`${LaneshiftConf.AutoscalerParam}NAME=value` sets parameter NAME of the policy (`laneshift policies NAME` lists them);
      |`configure` takes them as `autoscaler_parameters={"NAME": value}`.
      |
      |Besides these: `spark.plugins=${classOf[LaneshiftPlugin].getName}` switches laneshift on, and
      |`spark.sql.streaming.stateStore.providerClass` must be Spark's RocksDB provider for a query to be elastic:
      |the plugin sets that where nothing else is set, and a checkpoint keeps the provider that it was started with.
      |""".stripMargin
  }

  def main(args: Array[String]): Unit = files.foreach { case (file, content) =>
    Files.write(Paths.get(args(0)).resolve(file), content.getBytes(UTF_8))
  }

  /** The files below `repository` that are not what the options say. */
  def outdated(repository: Path): Seq[Path] = files.collect {
    case (file, content)
        if !Files.exists(repository.resolve(file)) || Files.readString(repository.resolve(file)) != content =>
      file
  }
}
