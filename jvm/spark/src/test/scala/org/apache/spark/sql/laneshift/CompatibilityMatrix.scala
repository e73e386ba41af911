package org.apache.spark.sql.laneshift

import java.nio.file.{Files, Path, Paths}
import java.util.concurrent.Executors

import scala.util.{Failure, Success, Try}

import org.apache.spark.sql.Row
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.state.OfflineStateRepartitionRunner
import org.apache.spark.sql.laneshift.rescale.{NotRescalable, OfflineRescale}
import org.apache.spark.sql.streaming.Trigger

/** Operator x output mode x trigger x motion x course of life, each compared with stock Spark in the same course: answers,
  * state rows and operator metrics. `make matrix` runs all of it and writes the page; its arguments are the page and, to run
  * only some, a part of a query's name.
  */
object CompatibilityMatrix {
  private type Options = Seq[(String, String)]

  /** How the life of a checkpoint goes on over the chunks of its input: each run has one or several chunks. */
  private sealed abstract class Course(val name: String) {
    def runs(elastic: Options): Seq[(Options, Seq[Int])]

    /** State partitions that there are from a run on. */
    def partitions: Map[Int, Int] = Map.empty
  }

  private object Course {
    case object Fresh extends Course("fresh") {
      override def runs(elastic: Options): Seq[(Options, Seq[Int])] = Seq(elastic -> Chunks)
    }
    case object Restarted extends Course("restarted") {
      override def runs(elastic: Options): Seq[(Options, Seq[Int])] = Chunks.map(i => elastic -> Seq(i))
    }
    case object Switched extends Course("switched on, off, on") {
      override def runs(elastic: Options): Seq[(Options, Seq[Int])] =
        Chunks.map(i => (if (i == 1) ElasticSession.Stock else elastic) -> Seq(i))
    }

    /** With another number of state partitions for each run: stock Spark's side gets it by Spark's own repartition. */
    case object Rescaled extends Course("switched, other partitions") {
      override def runs(elastic: Options): Seq[(Options, Seq[Int])] = Switched.runs(elastic)
      override val partitions: Map[Int, Int] = Map(1 -> 5, 2 -> 2)
    }
    val all: Seq[Course] = Seq(Fresh, Restarted, Switched)
  }

  private val Chunks = Seq(0, 1, 2)
  private val chunks = Chunks.map(i => TestInput.rows(seed = 31, i * 250L, 250, keys = 60))

  /** Lanes without motion: shards stay where they are. */
  private val still: Options =
    ElasticSession.moving(0L) :+ ("spark.sql.laneshift.motion" -> "never")

  /** `endsByItself`: a run is over once it has seen the rows that were there when it started. */
  private final case class Way(
      name: String,
      life: (ClassicSession, QueryCase, Path) => Life,
      realTime: Boolean = false,
      endsByItself: Boolean = false
  )

  private val microBatch = Seq(
    Way("as rows come", new MicroBatchLife(_, _, _)),
    Way("available now", new MicroBatchLife(_, _, _, Trigger.AvailableNow()), endsByItself = true)
  )
  private val realTime = Seq(Way("Real-time", new RealTimeLife(_, _, _, "1 second"), realTime = true))

  private val operators: Seq[(String, Seq[QueryCase])] = Seq(
    "aggregation, deduplication" -> MicroBatchPairSuite.cases,
    "session windows" -> SessionWindowPairSuite.cases,
    "joins" -> (JoinCases.ranges ++ JoinCases.windows),
    "several operators in a stage" -> JoinCases.chains.map(_._1),
    "groups with state" -> GroupStatePairSuite.cases,
    "transformWithState" -> TransformWithStatePairSuite.cases
  )

  /** What a life leaves: all its rows, and of each run the state and the counts by batch. */
  private final case class Left(
      rows: Seq[Row],
      states: Seq[Seq[String]],
      counts: Seq[Seq[Seq[OperatorCounts]]]
  )

  private def live(
      query: QueryCase,
      way: Way,
      runs: Seq[(Options, Seq[Int])],
      rescale: (ClassicSession, Path, Int) => Unit
  ): Left =
    ElasticSession.withFolder { at =>
      // Lines run at the same time: each life has a session, and with it options, of its own.
      val spark = ElasticSession.another()
      val life = way.life(spark, query, at)
      val left = runs.zipWithIndex.map { case ((options, chunkIds), i) =>
        rescale(spark, at, i)
        options.foreach { case (key, value) => spark.conf.set(key, value) }
        run(life, way, chunkIds.map(chunks(_)))
      }
      Left(life.rows, left.map(_._1), left.map(_._2))
    }

  private def run(life: Life, way: Way, input: Seq[Seq[TestInput]]) = {
    // Rows that a run which ends by itself is to see, and those of a first batch, come before it starts.
    val (before, after) = if (way.endsByItself) (input, Nil) else (input.take(1), input.drop(1))
    before.foreach(life.add)
    val running = life.start()
    try {
      life.await(running)
      after.foreach { chunk =>
        life.add(chunk)
        life.await(running)
      }
      running.stop()
      (
        life.state(running),
        if (way.realTime) Seq(Seq(RealTimeRun.counts(running))) else MicroBatchRun.countsOf(running)
      )
    } finally running.stop()
  }

  private def same(what: String, way: Way, course: Course, stock: Left, elastic: Left): Unit = {
    // There stock Spark's side keeps its number of stores.
    val byStore = !way.realTime || course.partitions.isEmpty
    def comparable(state: Seq[String]) =
      if (byStore) state else state.map(_.replaceFirst("/\\d+", "")).sorted
    def counted(counts: Seq[Seq[OperatorCounts]]) =
      if (byStore) counts else counts.map(_.map(_.copy(storeInstances = 0L, shufflePartitions = 0L)))
    PairCheck.sameRows(what, stock.rows, elastic.rows)
    if (way.realTime) PairCheck.sameOrderPerKey(what, stock.rows, elastic.rows)
    stock.states.zip(elastic.states).zipWithIndex.foreach { case ((a, b), i) =>
      assert(comparable(a) == comparable(b), s"state after run $i")
    }
    stock.counts.zip(elastic.counts).zipWithIndex.foreach { case ((a, b), i) =>
      assert(counted(a) == counted(b), s"operator metrics of run $i: $a and $b")
    }
    assert(stock.rows.nonEmpty, "no rows: nothing is compared")
  }

  private val drawn = "spark.sql.laneshift.motion.tasks" -> "true"

  /** Motion, the options that it takes, and the course. */
  private def columns(seed: Long): Seq[(String, Options, Course)] = {
    val moving = ElasticSession.moving(seed)
    val plain = for ((motion, options) <- Seq("never" -> still, "always" -> moving); course <- Course.all)
      yield (motion, options, course)
    val tasks = ("always, other tasks", moving :+ drawn)
    plain ++ Seq(Course.Fresh, Course.Rescaled).map(course => (tasks._1, tasks._2, course))
  }

  private val header = columns(0L).map { case (motion, _, course) => s"$motion, ${course.name}" }

  private def rescaledByUs(course: Course)(spark: ClassicSession, at: Path, run: Int): Unit =
    course.partitions.get(run).foreach(OfflineRescale.run(spark, at.toString, _, check = true))

  /** Spark's repartition has no rules for state of Real-time Mode: there it keeps its number, and the state is compared as a whole. */
  private def rescaledBySpark(course: Course, way: Way)(spark: ClassicSession, at: Path, run: Int): Unit =
    if (!way.realTime)
      course.partitions.get(run).foreach(new OfflineStateRepartitionRunner(spark, at.toString, _).run())

  /** A line of the page: the query's cells. */
  private def line(query: QueryCase, way: Way, seed: Long): String = {
    val stock = scala.collection.mutable.Map.empty[(Int, Map[Int, Int]), Left]
    val cells = columns(seed).map { case (motion, elastic, course) =>
      val result = Try {
        val runs = course.runs(elastic)
        // What is refused is refused before stock Spark's side has begun.
        val found = live(query, way, runs, rescaledByUs(course))
        def reference =
          live(
            query,
            way,
            runs.map { case (_, ids) => ElasticSession.Stock -> ids },
            rescaledBySpark(course, way)
          )
        same(query.name, way, course, stock.getOrElseUpdate((runs.size, course.partitions), reference), found)
      }
      def cell(text: String) = text.linesIterator.next().take(120).replace("|", "/")
      result.failed.foreach(e => println(s"${query.name}, ${way.name}, $motion, ${course.name}: $e"))
      result match {
        case Success(_) => "equal"
        case Failure(e: NotRescalable) => s"refused: ${cell(e.getMessage)}"
        case Failure(e) => s"**differs**: ${cell(e.toString)}"
      }
    }
    println(s"${query.name}, ${way.name}: ${cells.count(_ == "equal")} of ${cells.size} equal")
    s"| ${query.name} | ${query.outputMode} | ${way.name} | ${cells.mkString(" | ")} |"
  }

  /** Three lines at a time; those of Real-time Mode alone, for their tasks all run at once. */
  private def lines(cases: Seq[QueryCase], ways: Seq[Way]): Seq[String] = {
    val threads = Executors.newFixedThreadPool(if (ways.exists(_.realTime)) 1 else 3)
    val running = for {
      (query, i) <- cases.zipWithIndex
      // A clock of the test's own gives the trigger of what depends on processing time.
      way <- if (query.stepped) ways.take(1) else ways
    } yield threads.submit(() => line(query, way, i.toLong))
    try running.map(_.get())
    finally threads.shutdownNow()
  }

  private def head: String =
    s"""# Compatibility matrix
      |
      |Each cell is a life of one checkpoint over ${chunks.size} chunks of ${chunks.head.size} rows, on stock Spark and
      |elastic on three lanes; *equal*: the same rows, the same state rows after each run and the same operator metrics in each batch
      |(in Real-time Mode: the same order per key, too, and metrics over the run). *never* and *always* are values of
      |`spark.sql.laneshift.motion`. A restarted checkpoint is stopped and started for each chunk; a switched one is on stock Spark
      |for the second. *Other tasks*: another number of tasks in each batch. *Other partitions*: 5 state partitions for the second chunk and 2 for
      |the third instead of 3, by `laneshift checkpoint rescale`, on stock Spark's side by Spark's own repartition.
      |""".stripMargin

  def main(arguments: Array[String]): Unit = {
    // Not an argument: sbt takes the quotes of an empty one for a name that no query has.
    val wanted = sys.env.getOrElse("LANESHIFT_ONLY", "")
    val groups = operators.map { case (name, cases) => (name, cases, microBatch) } :+
      (("Real-time Mode", RealTimePairSuite.cases, realTime))
    val found = groups.map(_._2.count(_.name.contains(wanted))).sum
    require(found > 0, s"no query has '$wanted' in its name")
    val names = Seq("query", "output mode", "trigger") ++ header
    val tables = groups.map { case (name, cases, ways) =>
      (Seq(
        s"\n## ${name.capitalize}\n",
        names.mkString("| ", " | ", " |"),
        names.map(_ => "---").mkString("|", "|", "|")
      ) ++ lines(cases.filter(_.name.contains(wanted)), ways)).mkString("\n")
    }
    val page = (head +: tables).mkString("\n") + "\n"
    Files.writeString(Paths.get(arguments(0)), page)
    sys.exit(if (page.contains("**differs**")) 1 else 0)
  }
}
