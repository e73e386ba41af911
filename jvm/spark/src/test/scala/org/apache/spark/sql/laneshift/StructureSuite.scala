package org.apache.spark.sql.laneshift

import java.nio.file.{Files, Paths}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.sql.laneshift.conf.BuildInfo

import laneshift.testing.LimitedSuite

/** A package uses only what stands below it: the code can be read from the bottom up. */
class StructureSuite extends LimitedSuite {
  import StructureSuite._

  private val repo = Paths.get(System.getProperty("laneshift.repo"))

  private def sources(module: String): Seq[Source] = {
    val folder = repo.resolve(module).resolve("src/main/scala")
    Using.resource(Files.walk(folder)) { files =>
      files.iterator.asScala.toSeq
        .filter(_.toString.endsWith(".scala"))
        .map(f => Source(repo.relativize(f).toString, Files.readString(f)))
        .sortBy(_.path)
    }
  }

  private def check(layers: Layers, module: String): Unit = {
    val all = sources(module)
    assert(all.size > 5, s"hardly any sources in $module")
    val found = all.flatMap(layers.violations(_, all))
    assert(found.isEmpty, found.mkString(s"${found.size} references go upwards:\n", "\n", "\n"))
  }

  test("jvm/spark: " + spark.order.mkString(" < "))(check(spark, "jvm/spark"))

  test("jvm/core: " + core.order.mkString(" < "))(check(core, "jvm/core"))

  test("jvm/core knows no Spark") {
    val found =
      sources("jvm/core").flatMap(s => s.names.filter(_._1.startsWith("org.apache.spark")).map(s.path -> _))
    assert(found.isEmpty)
  }

  test("what stands below the plugin knows it by its name") {
    assert(BuildInfo.Plugin == classOf[LaneshiftPlugin].getName)
  }

  test("what a file uses is found in every form") {
    val own = "org.apache.spark.sql.laneshift"
    val state = "org.apache.spark.sql.execution.streaming.state"
    val all = Seq(
      Source("Store.scala", s"package $state\nfinal class OurStore\nprivate[state] object Other"),
      Source("Plugin.scala", s"package $own\nclass Plugin"),
      Source("Nowhere.scala", s"package $own.nowhere\nclass A")
    )
    def found(text: String): Seq[String] =
      spark.violations(Source("File.scala", s"package $own.lane\n$text"), all).map(_.replaceAll(" \\(.*", ""))
    def line(n: Int, what: String) = Seq(s"File.scala:$n: lane uses $what")
    assert(
      found(s"import $own.conf.LaneshiftConf\nimport $own.spec._\nimport $own.{body, conf => c}").isEmpty
    )
    assert(found(s"\nimport $own.runtime.A") == line(3, "runtime"))
    assert(found(s"import $own.runtime") == line(2, "runtime"))
    assert(found(s"import $own.workload.replay.A") == line(2, "workload"))
    assert(found(s"import $own.{\n  conf,\n  ui => u\n}") == line(4, "ui"))
    assert(found(s"import java.util.Map, $own.api._") == line(2, "api"))
    assert(found(s"val a = new $own.driver.A") == line(2, "driver"))
    assert(found(s"val a = classOf[_root_.$own.Plugin]") == line(2, "root"))
    assert(found(s"import $own.Plugin") == line(2, "root"))
    assert(found(s"import $own._") == line(2, "root"))
    assert(found(s"import $own.nowhere.A").nonEmpty)
    assert(found(s"""// $own.ui.A\n/* $own.ui.A\n*/ val a = "$own.ui.A" + '"' // \\"""").isEmpty)
    // Spark's own package, in which some files are ours.
    assert(found(s"import $state.{OurStore, StateStore}\nimport $state._\nimport $state.RocksDB").isEmpty)
    val below =
      Source("File.scala", s"package $own.body\nimport $state._\nval a: RocksDB = b\nval c = Other.d")
    assert(spark.violations(
      below,
      all
    ).map(_.replaceAll(" \\(.*", "")) == Seq("File.scala:4: body uses state"))
    val sparks = Source("File.scala", s"package $own.body\nimport $state.{RocksDB, StateStore}")
    assert(spark.violations(sparks, all).isEmpty)
    assert(spark.violations(all.last, all).head.contains("nowhere"), "a package without a place")
  }
}

object StructureSuite {

  /** Packages from the lowest to the highest. `root` is the package `prefix` itself; `others` are packages elsewhere that are partly
    * ours, by the name of their layer.
    */
  private final case class Layers(
      prefix: String,
      order: Seq[String],
      others: Map[String, String] = Map.empty
  ) {

    /** The layer of a name, if it is ours: of a package, or of what is in one. */
    private def layerOf(name: String, all: Seq[Source]): Option[String] =
      others.collectFirst {
        case (layer, p)
            if name.startsWith(s"$p.") && all.exists(s =>
              s.pack == p && s.defines(name.drop(p.length + 1))
            ) =>
          layer
      }.orElse(Option.when(name == prefix || name.startsWith(s"$prefix.")) {
        val next = name.drop(prefix.length + 1).takeWhile(_ != '.')
        if (next.isEmpty || next == "_" || all.exists(s => s.pack == prefix && s.defines(next))) "root"
        else next
      })

    private def layerOf(file: Source): String =
      others.collectFirst { case (layer, p) if file.pack == p => layer }.getOrElse(
        if (file.pack == prefix) "root" else file.pack.stripPrefix(s"$prefix.").takeWhile(_ != '.')
      )

    /** Names that a file has by a wildcard import of a package that is only partly ours. */
    private def byWildcard(file: Source, all: Seq[Source]): Seq[(String, Int)] = for {
      p <- others.values.toSeq
      if file.pack != p && file.names.exists(_._1 == s"$p._")
      name <- all.filter(_.pack == p).flatMap(_.definitions).distinct
      line <- file.firstLineOf(name)
    } yield s"$p.$name" -> line

    def violations(file: Source, all: Seq[Source]): Seq[String] = {
      val at = layerOf(file)
      if (!order.contains(at)) Seq(s"${file.path}: $at has no place in ${order.mkString(" < ")}")
      else
        (for {
          (name, line) <- file.names ++ byWildcard(file, all)
          used <- layerOf(name, all)
          if order.indexOf(used) > order.indexOf(at) || !order.contains(used)
        } yield s"${file.path}:$line: $at uses $used (as $name), but must not: ${order.mkString(" < ")}").distinct
    }
  }

  private val spark = Layers(
    "org.apache.spark.sql.laneshift",
    Seq(
      "scheduler",
      "conf",
      "proto",
      "wire",
      "spec",
      "body",
      "state",
      "rescale",
      "lane",
      "remote",
      "source",
      "runtime",
      "driver",
      "plan",
      "api",
      "ui",
      "root"
    ),
    Map(
      "scheduler" -> "org.apache.spark.scheduler",
      "state" -> "org.apache.spark.sql.execution.streaming.state"
    )
  )

  private val core = Layers("laneshift", Seq("ids", "routing", "planner", "lane", "root"))

  private final case class Source(path: String, text: String) {

    /** Without comments and strings, line by line as before. */
    private val code: String = Source.Ignored.replaceAllIn(text, m => "\n" * m.matched.count(_ == '\n'))

    val pack: String = "(?m)^package ([\\w.]+)".r.findFirstMatchIn(code).fold("")(_.group(1))

    /** What stands at the top of the file. */
    val definitions: Seq[String] =
      "(?m)^(?!package object)(?:\\w+(?:\\[\\w+\\])? )*(?:class|object|trait) (\\w+)".r.findAllMatchIn(
        code
      ).map(_.group(1)).toSeq

    def defines(name: String): Boolean = definitions.contains(name.takeWhile(_ != '.'))

    private def lineAt(offset: Int): Int = 1 + code.take(offset).count(_ == '\n')

    def firstLineOf(name: String): Option[Int] =
      s"\\b$name\\b".r.findFirstMatchIn(code).map(m => lineAt(m.start))

    /** Every qualified name, each with its line: `a.b.c`, and `a.b.{c, d => e}` as `a.b.c` and `a.b.d`. */
    val names: Seq[(String, Int)] = Source.Qualified.findAllMatchIn(code).flatMap { m =>
      val before = m.group(1).stripPrefix("_root_.")
      Option(m.group(2)) match {
        case None => Seq(before -> lineAt(m.start))
        case Some(selectors) =>
          "(?:^|,)\\s*([\\w.]+)".r.findAllMatchIn(selectors)
            .map(s => s"$before.${s.group(1)}" -> lineAt(m.start(2) + s.start(1)))
            .toSeq
      }
    }.toSeq.filterNot(_._1 == pack)
  }

  private object Source {
    val Ignored =
      "(?s)/\\*.*?\\*/|//[^\n]*|\"\"\".*?\"\"\"|\"(?:\\\\.|[^\"\\\\\n])*\"|'(?:\\\\.|[^'\\\\\n])'".r
    val Qualified = "(?<![\\w.])(\\w+(?:\\.\\w+)+)(?:\\.\\{([^}]*)\\})?".r
  }
}
