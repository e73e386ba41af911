package org.apache.spark.sql.laneshift

import java.nio.file.{Files, Path}

import scala.util.control.ControlThrowable

import org.apache.spark.sql.execution.streaming.state.OfflineStateRepartitionRunner
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.rescale.{RescaleState, TakeOver}

import laneshift.testing.{Deep, LimitedSuite}

/** The query's thread dies at each step of a take-over, as a driver that is killed there. Stock Spark then goes on, with the old
  * partitions or the new ones, or it refuses and says why, and goes on once laneshift or Spark itself has mended it: rows
  * and state as in a life without any kill.
  */
class RescaleKillSuite extends LimitedSuite with ElasticSession {
  private val format = "spark.sql.streaming.stateStore.checkpointFormatVersion"
  private val changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
  private val query = QueryCase("windowed sums", "append")(
    _.withWatermark("time", "2 seconds").groupBy(window(col("time"), "4 seconds"), col("key"))
      .agg(count("*"), sum("value"))
  )
  private val chunks = (0 until 5).map(i => TestInput.rows(seed = 41, i * 250L, 250))

  /** What may be found behind a kill: how many partitions the query goes on with. */
  private sealed abstract class Outcome
  private case object Old extends Outcome
  private case object New extends Outcome
  private case object Refused extends Outcome

  private final class Killed extends ControlThrowable("killed")

  /** Rows by batch, the take-over's number left out: what comes behind it counts on as if there had been none. */
  private def life(
      at: Path,
      killAt: Option[String]
  )(mend: Path => Unit): (Seq[String], Seq[String], Outcome) = {
    val run = new RescaleRun(spark, query, at, Map.empty)
    var outcome: Outcome = Old
    withConf(ElasticSession.moving(3L): _*) {
      run.start()
      chunks.take(2).foreach { c => run.add(c); run.await() }
      if (killAt.nonEmpty) run.ask(5)
      run.add(chunks(2))
      run.await()
      if (killAt.nonEmpty) {
        run.letTakeOver()
        val thread = RescaleRun.execution(run.query).queryExecutionThread
        TakeOver.passed = step => if (killAt.contains(step)) throw new Killed
        try {
          run.add(chunks(3))
          thread.join(60000)
          assert(!thread.isAlive && !run.query.isActive, s"not killed at $killAt")
        } finally TakeOver.passed = _ => ()
      } else {
        run.add(chunks(3))
        run.await()
        run.stop()
      }
    }
    withConf(ElasticSession.Stock: _*) {
      run.start()
      try run.await()
      catch {
        case e: Exception =>
          assert(e.toString.contains("unfinished state repartitioning"), e)
          outcome = Refused
          mend(at)
          run.start()
          run.await()
      }
      run.add(chunks(4))
      run.await()
      val plan = RescaleRun.execution(run.query).lastExecution
      if (outcome != Refused && plan.numStateStores == 5) outcome = New
      val state =
        MicroBatchRun.stateRows(spark, run.query, at).map(_.replaceAll("^(\\d+( [^/]*)?)/\\d+", "$1"))
      run.stop()
      val rows = run.rows.toSeq.sortBy(_._1).flatMap(_._2).map(_.toString).sorted
      (rows, state.sorted, outcome)
    }
  }

  /** The steps in their order, with what stock Spark does there. */
  private val steps = Map(
    "1" -> Seq(
      "caught up" -> Old,
      "marked" -> Old,
      "offsets" -> Refused,
      "placed" -> Refused,
      "metadata" -> Refused,
      "committed" -> New
    ),
    "2" -> Seq(
      "caught up" -> Old,
      "placed" -> Old,
      "marked" -> Old,
      "offsets" -> Refused,
      "metadata" -> Refused,
      "committed" -> New
    )
  )

  /** Those around the window that Spark's logs leave open; all of them in the deep tier. */
  private def chosen(version: String): Seq[(String, Outcome)] =
    if (sys.env.contains("LANESHIFT_EVERY")) steps(version)
    else steps(version).filter { case (step, _) => Set("marked", "offsets", "committed")(step) }

  /** One a format: Spark refuses to go on there, and is mended. */
  private val refused = Map("1" -> "placed", "2" -> "offsets")

  private val mends = Seq[(String, Path => Unit)](
    "laneshift" -> (at => TakeOver.repair(at.toUri.toString, spark)),
    "Spark" -> (at => { new OfflineStateRepartitionRunner(spark, at.toString, 5).run(); () })
  )

  for (
    (version, log) <- Seq("1" -> "false", "2" -> "true"); (name, mend) <- mends; once <- Seq(true, false)
    if version == "1" || name == "laneshift"
  )
    test(
      s"killed at ${if (once) s"step ${refused(version)}" else "each step"}, checkpoint format $version, " +
        s"changelog $log, mended by $name",
      Deep.Kills.unless(once && name == "laneshift"): _*
    ) {
      withConf(format -> version, changelog -> log) {
        val (rows, state, _) = reference(version)
        assert(rows.size > 50 && state.size > 20)
        (if (once) Seq(refused(version) -> Refused) else chosen(version)).foreach { case (step, expected) =>
          withFolder { at =>
            val (killedRows, killedState, outcome) = life(at, Some(step))(mend)
            assert(outcome == expected, step)
            assert(killedRows == rows, s"rows after a kill at $step")
            assert(killedState == state, s"state after a kill at $step")
            assert(!Files.exists(
              at.resolve("laneshift-rescale/taking-over")
            ) || expected != Refused || name == "Spark")
          }
        }
      }
    }

  for (
    (version, failed) <- Seq("1", "2").flatMap(v => chosen(v).map(s => v -> s._1)).distinct
    if failed != "committed"
  )
    test(
      s"what fails in a take-over when it is $failed leaves the query as it was, and another one is possible, " +
        s"checkpoint format $version",
      Deep.Kills.unless(version == "2" && failed == "marked"): _*
    ) {
      withConf(format -> version) {
        withFolder { at =>
          withConf(ElasticSession.moving(5L): _*) {
            val run = new RescaleRun(spark, query, at, Map.empty)
            run.start()
            try {
              run.add(chunks.head)
              run.await()
              TakeOver.passed =
                step => if (step == failed) throw new IllegalStateException(s"planted at $step")
              run.ask(5)
              run.add(chunks(1))
              run.await()
              run.letTakeOver()
              val first = run.rescales.last
              run.add(chunks(2))
              run.await()
              assert(first.state == RescaleState.Failed && first.failure.exists(_.contains("planted")))
              assert(RescaleRun.execution(run.query).lastExecution.numStateStores == 3)
              assert(!Files.exists(at.resolve("laneshift-rescale")))
              TakeOver.passed = _ => ()
              run.ask(4)
              run.add(chunks(3))
              run.await()
              run.takeOver(chunks(4))
              val state = MicroBatchRun.stateRows(spark, run.query, at).map(_.replaceAll("/\\d+", "")).sorted
              run.stop()
              val rows = run.rows.toSeq.sortBy(_._1).flatMap(_._2).map(_.toString).sorted
              val (wanted, wantedState, _) = reference(version)
              assert(rows == wanted, failed)
              assert(state == wantedState, failed)
            } finally {
              TakeOver.passed = _ => ()
              TakeOver.held = false
              run.query.stop()
            }
          }
        }
      }
    }

  private val references = scala.collection.mutable.Map.empty[String, (Seq[String], Seq[String], Outcome)]
  private def reference(version: String) =
    references.getOrElseUpdate(version, withFolder(life(_, None)(_ => ())))
}
