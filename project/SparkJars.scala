import sbt._

/** The Spark that laneshift is compiled and tested against: the `jars` folder of an installed pyspark, so that it is
  * the very Spark that a Python user runs. Nothing of it may enter our own jar.
  */
final case class SparkJars(folder: File) {
  val jars: Seq[File] = folder.listFiles().filter(_.getName.endsWith(".jar")).toSeq.sortBy(_.getName)

  /** Spark's version, from the name of its core jar: `spark-core_2.13-4.3.0.jar`. */
  val version: String = {
    val Core = """spark-core_[\d.]+-(.+)\.jar""".r
    jars.map(_.getName).collectFirst { case Core(v) => v }.getOrElse {
      throw new MessageOnlyException(s"No spark-core_*.jar in $folder; is this the jars folder of a pyspark?")
    }
  }

  /** The `--add-opens` list that Spark needs on JDK 17, asked from Spark's own launcher so that it cannot go stale. */
  def javaModuleOptions: Seq[String] = {
    val launcher = jars.filter(_.getName.startsWith("spark-launcher_")).map(_.toURI.toURL).toArray
    val loader = new java.net.URLClassLoader(launcher, null)
    try {
      val options = loader.loadClass("org.apache.spark.launcher.JavaModuleOptions")
      options.getMethod("defaultModuleOptionArray").invoke(null).asInstanceOf[Array[String]].toSeq
    } finally loader.close()
  }
}

object SparkJars {

  /** Where the jars are: `LANESHIFT_SPARK_JARS`, else the pyspark of `.venv`. Fails with the way out. */
  def find(root: File): SparkJars = {
    val found = sys.env.get("LANESHIFT_SPARK_JARS").filter(_.nonEmpty).map(file) match {
      case Some(folder) => Some(folder)
      case None =>
        (root / ".venv" / "lib" * "python3.*" / "site-packages" / "pyspark" / "jars").get().headOption
    }
    found.filter(_.isDirectory).map(SparkJars(_)).getOrElse {
      val looked =
        found.getOrElse(root / ".venv" / "lib" / "python3.*" / "site-packages" / "pyspark" / "jars")
      throw new MessageOnlyException(
        s"Spark's jars are missing: no folder $looked. " +
          "Run `make setup`, or set LANESHIFT_SPARK_JARS to the jars folder of an installed pyspark."
      )
    }
  }
}
