// jvm/core knows no Spark; jvm/spark holds what must. Together they make one jar, which jvm/published publishes. jvm/workload is
// a jar of its own: sources, sinks and costs for tests and benchmarks, of which the first two know nothing.

ThisBuild / organization := "io.github.laneshift"
ThisBuild / version := sys.env.get("LANESHIFT_VERSION").filter(_.nonEmpty).getOrElse("0.0.0-dev")
ThisBuild / scalaVersion := "2.13.18"
ThisBuild / licenses := Seq(License.Apache2)
ThisBuild / versionScheme := Some("early-semver")
ThisBuild / description := "Elastic stateful operators for Apache Spark Structured Streaming, while the query runs"

lazy val repoRoot = settingKey[File]("The folder of this file.")
lazy val testPython = settingKey[String]("The Python that Spark's workers run in tests.")
lazy val testJava = settingKey[Option[File]]("The JDK that runs tests, if it is another one than sbt's.")
lazy val sparkJars = taskKey[SparkJars]("The Spark to compile against and to test with.")
lazy val buildProperties =
  taskKey[Seq[File]]("Writes laneshift-build.properties: what this jar was made from.")
lazy val bundled = taskKey[File]("Writes bundled.json: the libraries whose classes the assembled jar holds.")
lazy val testLaunch =
  taskKey[File]("Compiles the tests and writes what `java @FILE` needs to run classes of theirs.")

/** Below Spark's names is what reads what Spark keeps private to a package. */
val ourPackages = Seq("laneshift/", "org/apache/spark/sql/", "org/apache/spark/scheduler/StageTasks")
lazy val checkJar = taskKey[File]("The assembled jar, after checking that it holds our classes only.")

ThisBuild / repoRoot := (LocalRootProject / baseDirectory).value
ThisBuild / sparkJars := SparkJars.find(repoRoot.value)
ThisBuild / testJava := sys.env.get("LANESHIFT_TEST_JAVA_HOME").filter(_.nonEmpty).map(file)

// The rooms of the deep tier (laneshift.testing.Deep says what each holds), whose tests the gate leaves out.
lazy val deepRooms = Seq("pairs", "motion", "policies", "remote", "kills", "mutants", "speed")

// Without LANESHIFT_DEEP the gate's tests; with LANESHIFT_DEEP=room or room,room the tests of those rooms, and no others; with
// LANESHIFT_DEEP=all every test.
def ofTier(asked: Option[String]): Seq[String] = {
  def tag(option: String)(room: String) = Seq(option, s"laneshift.deep.$room")
  val rooms = asked.filter(_ != "all").toSeq.flatMap(_.split(',')).map(_.trim).filter(_.nonEmpty)
  rooms.filterNot(deepRooms.contains).foreach { room =>
    throw new MessageOnlyException(
      s"LANESHIFT_DEEP names the room '$room', and the JVM's tests have none of that name. " +
        s"The rooms are ${deepRooms.mkString(", ")}; 'all' is every test; without LANESHIFT_DEEP the gate's tests run."
    )
  }
  if (asked.contains("all")) Nil
  else if (rooms.isEmpty) deepRooms.flatMap(tag("-l")) else rooms.flatMap(tag("-n"))
}

// Checkpoints and stores of tests wait for no disk, where this machine has a file system in memory with room for them: they
// have been seen to take more than a gigabyte.
lazy val inMemory: Option[File] =
  Some(file("/dev/shm")).filter(at => at.isDirectory && at.canWrite && at.getUsableSpace > (8L << 30))

lazy val common = Seq(
  scalacOptions ++= Seq(
    "-deprecation",
    "-feature",
    "-unchecked",
    "-encoding",
    "utf8",
    "-release",
    "17",
    // Not byname-implicit: false alarms in ScalaTest.
    "-Xlint:_,-byname-implicit",
    // Every warning is an error, but for the use of what Spark has deprecated: we follow Spark there.
    "-Wconf:cat=deprecation:w,any:e"
  ),
  Compile / doc / sources := Nil,
  javacOptions ++= Seq("--release", "17"),
  libraryDependencies ++= Seq(
    "org.scalatest" %% "scalatest" % "3.2.19" % Test,
    "org.scalatestplus" %% "scalacheck-1-18" % "3.2.19.0" % Test
  ),
  Test / fork := true,
  Test / parallelExecution := false,
  Test / testForkedParallel := false,
  Test / testOptions += Tests.Argument(TestFrameworks.ScalaTest, "-oDF"),
  Test / testOptions += Tests.Argument(TestFrameworks.ScalaTest, ofTier(sys.env.get("LANESHIFT_DEEP")): _*),
  Test / javaOptions ++= Seq(
    "-Xmx3g",
    // What a test leaves is garbage: room for it makes collections few.
    "-Xms2g",
    "-Xmn1g",
    "-Xss4m",
    "-Djava.awt.headless=true",
    // Tests wait for each other's steps, not for collections: threads for these only take the cores away.
    "-XX:+UseSerialGC",
    s"-Dlaneshift.repo=${repoRoot.value}",
    s"-Dlaneshift.deep.rooms=${deepRooms.mkString(",")}"
  ),
  Test / javaOptions ++= inMemory.map(at => s"-Djava.io.tmpdir=$at").toSeq,
  // Tests may leave files in their working folder (spark-warehouse, artifacts): keep them under target/.
  Test / forkOptions := {
    val work = target.value / "test-work"
    IO.createDirectory(work)
    (Test / forkOptions).value.withWorkingDirectory(work).withJavaHome(testJava.value)
  },
  // What tests start themselves, executors above all, runs on the same JDK.
  Test / envVars ++= testJava.value.map("JAVA_HOME" -> _.getPath).toMap
)

// What the plugin's jar has of others is there by other names, by which the workload's jar knows it, too.
lazy val shaded = Seq(
  ShadeRule.rename("org.HdrHistogram.**" -> "laneshift.shaded.hdrhistogram.@1").inAll
)

lazy val mergeRules = assembly / assemblyMergeStrategy := {
  case PathList("META-INF", "services", _*) => MergeStrategy.filterDistinctLines
  case PathList("META-INF", "LICENSE" | "NOTICE") => MergeStrategy.singleOrError
  // Of what is shaded: gets the library's name, and is asked for again by that.
  case PathList("META-INF", "LICENSE.txt") => MergeStrategy.rename
  case PathList("META-INF", name) if name.startsWith("LICENSE_") => MergeStrategy.singleOrError
  case PathList("META-INF", _*) => MergeStrategy.discard
  case PathList("module-info.class") => MergeStrategy.discard
  case _ => MergeStrategy.deduplicate
}

// Our LICENSE and NOTICE in META-INF.
lazy val withLicenses = Compile / resourceGenerators += Def.task {
  Seq("LICENSE", "NOTICE").map { name =>
    val out = (Compile / resourceManaged).value / "META-INF" / name
    IO.copyFile(repoRoot.value / name, out)
    out
  }
}.taskValue

lazy val root = (project in file("."))
  .aggregate(core, spark, workload)
  .disablePlugins(AssemblyPlugin)
  .settings(name := "laneshift", publish / skip := true)

lazy val core = (project in file("jvm/core"))
  .disablePlugins(AssemblyPlugin)
  .settings(
    common,
    name := "laneshift-core",
    libraryDependencies += "org.hdrhistogram" % "HdrHistogram" % "2.2.2"
  )

lazy val spark = (project in file("jvm/spark"))
  .dependsOn(core % "compile->compile;test->test")
  .settings(
    common,
    name := "laneshift-spark",
    Compile / unmanagedJars := sparkJars.value.jars.map(Attributed.blank),
    Test / unmanagedJars := (Compile / unmanagedJars).value,
    // By its name: it depends on what is compiled here, and only the tests here on it.
    Test / unmanagedClasspath ++= (LocalProject("workload") / Compile / exportedProducts).value,
    Test / javaOptions ++= sparkJars.value.javaModuleOptions,
    testPython := sys.env
      .getOrElse("PYSPARK_PYTHON", (repoRoot.value / ".venv" / "bin" / "python").getPath),
    Test / javaOptions ++= Seq(
      s"-Dlaneshift.test.python=${testPython.value}",
      s"-Dlaneshift.test.log=${target.value / "test.log"}"
    ),
    Test / envVars ++= Map("PYSPARK_PYTHON" -> testPython.value, "SPARK_LOCAL_IP" -> "127.0.0.1"),
    testLaunch := {
      val paths = (Test / fullClasspath).value.map(_.data.getPath).mkString(":")
      val words = (Test / javaOptions).value ++ Seq("-cp", paths)
      val out = target.value / "test-launch.args"
      // In a file of arguments backslashes and blanks have to be quoted.
      IO.writeLines(out, words.map(word => "\"" + word.replace("\\", "\\\\") + "\""))
      val classes = Seq((core / Test / classDirectory).value, (Test / classDirectory).value)
      IO.writeLines(target.value / "test-classes.txt", classes.map(_.getPath))
      out
    },
    buildProperties := {
      val commit = sys.env.get("LANESHIFT_COMMIT").filter(_.nonEmpty).orElse {
        import scala.sys.process._
        val git = Process(Seq("git", "rev-parse", "--short=12", "HEAD"), repoRoot.value)
        scala.util.Try(git.!!(ProcessLogger(_ => ())).trim).toOption
      }
      val lines = Seq(
        s"version=${version.value}",
        s"spark.version=${sparkJars.value.version}",
        s"scala.version=${scalaVersion.value}",
        s"commit=${commit.getOrElse("unknown")}"
      )
      val out = (Compile / resourceManaged).value / "laneshift-build.properties"
      if (!out.exists() || IO.readLines(out) != lines) IO.writeLines(out, lines)
      Seq(out)
    },
    Compile / resourceGenerators += buildProperties.taskValue,
    withLicenses,
    // The messages of the control service, with the protobuf that Spark's core has, by the name that it has there.
    PB.protocVersion := "4.33.5",
    libraryDependencies ~= (_.filterNot(_.name == "protobuf-java")),
    Compile / PB.protoSources := Seq(repoRoot.value / "python" / "laneshift" / "plugin" / "v1"),
    Compile / PB.targets := Seq(
      PB.gens.java(PB.protocVersion.value) -> (Compile / sourceManaged).value / "proto"
    ),
    Compile / PB.generate := {
      val made = ((Compile / PB.generate).value ** "*.java").get()
      made.foreach { file =>
        val text = IO.read(file)
        val ofSpark = text.replace("com.google.protobuf", "org.sparkproject.spark_core.protobuf")
        if (ofSpark != text) IO.write(file, ofSpark)
      }
      made
    },
    assembly / assemblyOutputPath := target.value / "laneshift-spark.jar",
    assembly / test := {},
    assemblyPackageScala / assembleArtifact := false,
    assembly / assemblyExcludedJars := {
      val ofSpark = sparkJars.value.jars.toSet
      (assembly / fullClasspath).value.filter(entry => ofSpark(entry.data))
    },
    assembly / assemblyShadeRules := shaded,
    mergeRules,
    bundled := {
      val excluded = (assembly / assemblyExcludedJars).value.map(_.data).toSet
      val licenses = update.value.configuration(Runtime).toSeq.flatMap(_.modules).map { found =>
        (found.module.organization, found.module.name) -> found.licenses.map(_._1)
      }
      val lines = for {
        entry <- (assembly / fullClasspath).value if !excluded(entry.data) && entry.data.isFile
        module <- entry.get(moduleID.key)
        if module.organization != organization.value && module.organization != scalaOrganization.value
      } yield {
        val names =
          licenses.collect {
            case (id, all) if id == (module.organization, module.name) => all
          }.flatten.distinct
        s"""  {"group": "${module.organization}", "name": "${module.name}", "version": "${module.revision}", """ +
          names.map(n => s""""$n"""").mkString(""""licenses": [""", ", ", "]}")
      }
      val out = target.value / "bundled.json"
      IO.write(out, lines.sorted.mkString("[\n", ",\n", "\n]\n"))
      out
    },
    checkJar := {
      val jar = assembly.value
      val limit = 15L << 20
      val zip = new java.util.zip.ZipFile(jar)
      val names =
        try zip.stream().toArray.toSeq.map(_.toString)
        finally zip.close()
      val classes = names.filter(_.endsWith(".class"))
      val foreign =
        classes.filterNot(c => ourPackages.exists(c.startsWith))
      if (foreign.nonEmpty)
        throw new MessageOnlyException(
          s"$jar holds ${foreign.size} classes that are neither ours nor shaded, such as ${foreign.head}: " +
            "add a ShadeRule to build.sbt."
        )
      if (!names.exists(_.startsWith("META-INF/LICENSE_HdrHistogram")))
        throw new MessageOnlyException(
          s"$jar lacks the licence of the classes that it has from HdrHistogram."
        )
      if (jar.length > limit)
        throw new MessageOnlyException(
          s"$jar has ${jar.length} bytes, more than the $limit that it may have."
        )
      jar
    }
  )

lazy val workload = (project in file("jvm/workload"))
  .dependsOn(spark % Provided)
  .settings(
    common,
    name := "laneshift-workload",
    Compile / unmanagedJars := sparkJars.value.jars.map(Attributed.blank),
    withLicenses,
    // Its own classes, and nothing else.
    assembly / assemblyOutputPath := target.value / "laneshift-workload.jar",
    assembly / assemblyExcludedJars := (assembly / fullClasspath).value.filter(_.data.isFile),
    assembly / assemblyShadeRules := shaded,
    mergeRules,
    assembly / test := {},
    assemblyPackageScala / assembleArtifact := false
  )

// What a Maven repository gets: the one jar, its sources, and a POM that asks for nothing, since Spark is where the jar runs.
lazy val published = (project in file("jvm/published"))
  .disablePlugins(AssemblyPlugin)
  .settings(
    name := "laneshift-spark",
    autoScalaLibrary := false,
    Compile / packageBin := (spark / checkJar).value,
    Compile / packageSrc / mappings := (core / Compile / packageSrc / mappings).value ++
      (spark / Compile / packageSrc / mappings).value,
    Compile / packageDoc / publishArtifact := false,
    publishTo := Some(MavenCache("release", target.value / "repository"))
  )
