package org.apache.spark.sql.laneshift

import scala.util.Try
import scala.util.control.ControlThrowable

import org.apache.spark.sql.{Encoder, Encoders}
import org.apache.spark.sql.execution.streaming.state.{EncoderCheck, RemoteStateCheck}
import org.apache.spark.sql.expressions.Aggregator
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.body.ShardOfHash
import org.apache.spark.sql.laneshift.rescale.TakeOver
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}

import laneshift.lane.{CoreShareSuite, HandoffChecks, InletStress, StressPlan}
import laneshift.lane.explore.{DealsScheduleSuite, ScheduleExplorerSuite}
import laneshift.testing.{Deep, Fault, Faults, LimitedSuite}

/** A sum that takes its time to merge values of a million and more: its lane is late, whatever the machine does. */
object LateSum extends Aggregator[Long, Long, Long] {
  val Late = 1000000L
  override def zero: Long = 0L
  override def reduce(sum: Long, value: Long): Long = sum + value
  override def merge(a: Long, b: Long): Long = {
    if (b >= Late) Thread.sleep(15L)
    a + b
  }
  override def finish(sum: Long): Long = sum
  override def bufferEncoder: Encoder[Long] = Encoders.scalaLong
  override def outputEncoder: Encoder[Long] = Encoders.scalaLong
}

/** `tries`: how often the check may be repeated until it notices, where threads decide. */
private final case class Plant(fault: Fault, check: String, tries: Int = 1)(val run: () => Unit)

/** Every planted bug is noticed by a named check, which is silent without the bug. */
class PlantedBugSuite extends LimitedSuite with ElasticSession {
  import Fault._

  private val plants = Seq(
    Plant(QueueNotRecalled, "queued rows go along")(() => HandoffChecks.queuedRowsAreRecalled()),
    Plant(SettledUnderTheLane, "rows stay until the switch")(() => HandoffChecks.rowsStayUntilTheSwitch()),
    Plant(RemainderDropped, "rows taken but not processed go along")(() => HandoffChecks.takenRowsGoAlong()),
    Plant(RemainderBehindQueue, "rows taken but not processed go along")(() =>
      HandoffChecks.takenRowsGoAlong()
    ),
    Plant(RoutingNotSwitched, "the routing is switched")(() => HandoffChecks.routingIsSwitched()),
    Plant(EndBeforeHandoffs, "the end waits for handoffs")(() => HandoffChecks.endWaitsForHandoffs()),
    Plant(BoundaryBehindRowsOnly, "idle lanes meet the boundary")(() =>
      HandoffChecks.idleLanesMeetTheBoundary()
    ),
    Plant(CountedUnstarted, "a lane that cannot start is not waited for")(() =>
      HandoffChecks.unstartedLaneIsNotAwaited()
    ),
    Plant(EncoderShared, "lanes decode apart")(() =>
      withFolder(EncoderCheck.lanesDecodeApart(families = false))
    ),
    Plant(FamilyEncoderShared, "lanes decode a column family apart")(() =>
      withFolder(EncoderCheck.lanesDecodeApart(families = true))
    ),
    Plant(ArrivalUnheard, "state away from home")(() => stateAway()),
    Plant(ScanPastFrame, "state away from home")(() => stateAway()),
    Plant(MergeUnseen, "state away from home")(() => stateAway()),
    Plant(ScanUnfiltered, "a late lane, complete mode")(() => lateLane(late)),
    Plant(CommitTwice, "a late lane, complete mode")(() => lateLane(late)),
    Plant(MetricsPerLane, "a late lane, complete mode")(() => lateLane(late)),
    Plant(ScanOpenedEarly, "a late lane, complete mode")(() => lateLane(late)),
    Plant(SealBeforeWrites, "a late lane, update mode")(() => lateLane(changed)),
    Plant(CheckpointIdPerLane, "a late lane, checkpoint ids")(() =>
      lateLane(late, "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2")
    ),
    Plant(ScanDecodesAhead, "sessions that end")(() => lateLane(sessions)),
    Plant(TimersUnfiltered, "a late lane, timers")(() => lateLane(timers)),
    Plant(GroupedKeyFlat, "a late lane, timers")(() => lateLane(timers)),
    Plant(WrongShardHash, "a late lane, timers")(() => lateLane(timers)),
    Plant(VariablesPerLane, "a late lane, timers")(() => lateLane(timers)),
    Plant(ReadsPastWrites, "a late lane, timers")(() => lateLane(timers)),
    Plant(ScanTakesNewShards, "Real-time Mode, timers", tries = 8)(() =>
      PairCheck.realTimeByClock(spark, this, RowByRow.query, RowByRow.input, seed = 5L)
    ),
    Plant(ProviderByBatch, "an initial state")(() => pair(GroupStatePairSuite.continued)),
    Plant(RestartScans, "a lane restart", tries = 4)(() => lateLane(within, restarts: _*)),
    Plant(RestartSeals, "a lane restart", tries = 4)(() => lateLane(within, restarts: _*)),
    Plant(RestartReported, "a lane restart", tries = 4)(() => lateLane(within, restarts: _*)),
    Plant(RightByLeftHash, "a join that evicts")(() => pair(JoinCases.plain)),
    Plant(ScanUnfiltered, "a join that evicts", tries = 8)(() => pair(JoinCases.plain)),
    Plant(FieldsOfFirstInput, "a join with a wide right side")(() => pair(JoinCases.wide)),
    Plant(OpenUntilLastInput, "deduplication below a join")(() => pair(JoinCases.deduplicated)),
    Plant(BoundaryUntold, "a join with lanes elsewhere")(() => pair(JoinCases.plain, elsewhere: _*)),
    Plant(LeftOutAtTheEnd, "a join with lanes elsewhere")(() => pair(JoinCases.plain, elsewhere: _*)),
    Plant(SealPastFrame, "late lanes elsewhere, update mode")(() => lateLane(changed, elsewhere: _*)),
    Plant(SharedScanPastFrame, "overdue timers with lanes elsewhere")(() => pair(overdue, elsewhere: _*)),
    Plant(CommitUntold, "late lanes elsewhere, update mode", tries = 4)(() =>
      lateLane(changed, elsewhere: _*)
    ),
    Plant(NotDrained, "a sink that takes only some rows")(() => limited()),
    Plant(ReadsAsTheTask, "the number of a partition in one task")(() =>
      pair(TaskChecks.numbered, inOneTask)
    ),
    Plant(OncePerTask, "deduplication in one task")(() => pair(deduplicated, inOneTask)),
    Plant(UntoldFetchFailure, "rows of a shuffle are lost")(() => TaskChecks.fetchAgain(this, inOneTask)),
    Plant(LastPartitionUndrained, "a sink that takes one row of a task")(() =>
      TaskChecks.oneRowOfATask(this, inOneTask)
    ),
    Plant(CommitKeepsTurn, "what goes on beside a commit in one task")(() =>
      TaskChecks.commitsBeside(this, inOneTask, "spark.sql.laneshift.lanes" -> "1")
    ),
    Plant(CachePerLane, "Real-time Mode, state and order", tries = 6)(() => realTime()),
    Plant(OutputsAfterSwitch, "Real-time Mode, state and order", tries = 40)(() => realTime()),
    Plant(KeyInTwoStores, "a rescale beside Spark's")(() => rescale()),
    Plant(RecordedForgotten, "a rescale beside Spark's")(() => rescale()),
    Plant(CommitUnasked, "a batch that is only looked at")(() => LookChecks.notCommitted(this)),
    Plant(CommitUnasked, "a sink that takes its time")(() => LookChecks.committedWhenAsked(this)),
    Plant(ReadAsOfBegin, "a rescale that takes long")(() =>
      RescaleChecks.longerThanBatchesAreKept(this, "2")
    ),
    Plant(RecordedTwice, "a rescale that takes long")(() =>
      RescaleChecks.longerThanBatchesAreKept(this, "2")
    ),
    Plant(AnyBatchUndone, "a mark of a take-over")(() => RescaleChecks.sparksOwnBatchStays(this)),
    Plant(WatermarkKept, "a rescale beside Spark's")(() => rescale()),
    Plant(PartitionsUntold, "a rescale beside Spark's")(() => rescale()),
    Plant(IdsUntold, "a rescale beside Spark's")(() => rescale()),
    Plant(AnothersTable, "a rescale beside Spark's")(() => rescale()),
    Plant(PlacedTooEarly, "a kill as files are placed")(() => killedRescale()),
    Plant(OldDeletedEarly, "a kill as files are placed")(() => killedRescale()),
    Plant(OperatorsUntold, "what is read around take-overs")(() =>
      VersionChecks.sameAsStock(this, VersionChecks.variables)()
    ),
    Plant(PlannerUnheard, "the balancer rests while a planner decides")(() =>
      assert(KeyClaimsSuite.balanced(this, claimed = true) == 0)
    )
  )

  /** Checks that have passed without a bug. */
  private val silent = scala.collection.mutable.Set.empty[String]

  test("every fault has a check") {
    assert((plants.map(
      _.fault
    ) ++ ScheduleExplorerSuite.Finds ++ DealsScheduleSuite.Finds ++ CoreShareSuite.Finds).toSet == Fault.all.toSet)
    assert(Fault.all.map(_.name).distinct.size == Fault.all.size)
    assert(!Fault.all.exists(Faults.isOn))
  }

  plants.groupBy(_.check).toSeq.sortBy(_._1).foreach { case (check, planted) =>
    test(s"$check: silent without a bug", Deep.Mutants) {
      planted.head.run()
      silent += check
    }
    planted.foreach { plant =>
      test(s"$check: notices ${plant.fault.name}", Deep.Mutants) {
        assert(silent(check), "a check that is never silent notices nothing")
        val noticed = (1 to plant.tries).iterator.map(_ -> Try(Faults.withFault(plant.fault)(plant.run())))
        val red = noticed.collectFirst { case (n, scala.util.Failure(error)) => n -> error }
        assert(red.nonEmpty, s"nobody noticed in ${plant.tries} tries that ${plant.fault.what}")
        // Which try it was shows when a check fades.
        red.foreach { case (n, error) =>
          info(s"try $n of ${plant.tries}: ${error.toString.linesIterator.next().take(160)}")
        }
      }
    }
  }

  Seq(QueueNotRecalled, RemainderDropped, RemainderBehindQueue, RoutingNotSwitched).foreach { fault =>
    test(s"the stress of the inlet: notices ${fault.name}", Deep.Mutants) {
      val red = (0 until 5).exists { seed =>
        Try(Faults.withFault(fault)(new InletStress(StressPlan(seed.toLong, rows = 20000)).run())).isFailure
      }
      assert(red)
    }
  }

  private def stateAway(): Unit =
    (0 until 30).foreach(seed => withFolder(RemoteStateCheck.run(seed.toLong, _)))

  // ---- with Spark

  private val twoLanes = Seq(
    "spark.sql.laneshift.enabled" -> "true",
    "spark.sql.laneshift.lanes" -> "2",
    "spark.sql.laneshift.maxLanes" -> "2",
    "spark.sql.laneshift.shardsPerPartition" -> "16",
    "spark.sql.laneshift.balance.enabled" -> "false"
  )

  private val late = QueryCase("late lane", "complete") { input =>
    input.groupBy("key").agg(udaf(LateSum).apply(col("value")), count("*"))
  }

  private val changed = QueryCase("late lane, update mode", "update")(late.build)

  private val sessions = QueryCase("sessions", "append") { input =>
    input.withWatermark(
      "time",
      "1 second"
    ).groupBy(session_window(col("time"), "100 milliseconds"), col("key")).count()
  }

  private def lateTimers(name: String, still: Boolean) = QueryCase(name, "append") { input =>
    val session = spark
    import session.implicits._
    input
      .withWatermark("time", "100 milliseconds")
      .as[TestInput]
      .groupByKey(_.key)
      .transformWithState(new LateTimers(still), TimeMode.EventTime(), OutputMode.Append())
      .toDF()
  }

  private val timers = lateTimers("timers", still = true)
  private val overdue = lateTimers("timers where shards move", still = false)

  private val within = QueryCase("within watermark", "append") { input =>
    input.withWatermark("time", "100 milliseconds").dropDuplicatesWithinWatermark("key").select("key", "id")
  }

  /** The task's thread runs the one lane, and goes over to threads at its first row: a lane restart. What the watermark has
    * passed is still there then, as no batch without rows has come between.
    */
  private val restarts = Seq(
    "spark.sql.laneshift.lanes" -> "1",
    "spark.sql.laneshift.motion" -> "always",
    "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"
  )

  /** Two lanes over the network. */
  private val elsewhere = Seq(
    "spark.sql.laneshift.motion" -> "always",
    "spark.sql.laneshift.motion.remoteLanes" -> "2",
    "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2"
  )

  /** Keys of lane 1 are late: lane 0 scans and seals while lane 1 has not yet written. */
  private lazy val lateChunks: Seq[Seq[TestInput]] = {
    val shards = new ShardOfHash(3, 16)
    val lane = spark
      .range(60)
      .selectExpr("concat('key-', id) as k")
      .selectExpr("k", "hash(k)")
      .collect()
      .map(r => r.getString(0) -> shards(r.getInt(1)) % 2)
      .toMap
    Seq(0, 120).map(first =>
      TestInput
        .rows(seed = 5, first.toLong, 120, keys = 60)
        .map(r => r.copy(value = if (lane(r.key) == 1) LateSum.Late + r.id else r.id))
    )
  }

  private def runLate(query: QueryCase, options: Seq[(String, String)]): RunResult =
    withFolder(at => withConf(options: _*)(MicroBatchRun(spark, query, lateChunks, at)))

  private val lateStock = scala.collection.mutable.Map.empty[(String, Seq[(String, String)]), RunResult]

  private def lateLane(query: QueryCase, more: (String, String)*): Unit = {
    val stock = lateStock.getOrElseUpdate((query.name, more), runLate(query, more ++ ElasticSession.Stock))
    val elastic = runLate(query, twoLanes ++ more)
    assert(elastic.plan.contains("Elastic ["))
    assert(stock.batches.size == elastic.batches.size, "number of batches")
    stock.batches.zip(elastic.batches).foreach { case (a, b) => PairCheck.sameRows("late lane", a, b) }
    assert(stock.state == elastic.state, "state rows")
    assert(stock.counts == elastic.counts, "operator metrics")
  }

  /** Spark's operator commits before its first row: a limit above it is done while the late lane has not committed. */
  private val some = QueryCase("limit above a late lane", "complete")(late.build(_).limit(5))

  private def stateOfSome(options: Seq[(String, String)]): Seq[String] =
    withFolder(at => withConf(options: _*)(MicroBatchRun(spark, some, lateChunks, at).state))

  private def limited(): Unit =
    assert(stateOfSome(ElasticSession.Stock) == stateOfSome(twoLanes), "state rows")

  private val inOneTask = "spark.sql.laneshift.tasks" -> "1"

  private val deduplicated = QueryCase("dropDuplicates", "append")(_.dropDuplicates("key", "number"))

  private val pairChunks = Seq(0, 300).map(first => TestInput.rows(seed = 4, first.toLong, 300, keys = 6))

  private def pair(query: QueryCase, more: (String, String)*): Unit = {
    PairCheck.microBatch(spark, this, query, pairChunks, seed = 8L, more: _*)
    ()
  }

  /** Some keys take their time, yet less than a lane keeps outputs back: what it holds of other keys when it lets them go is
    * late, and the lane that gets them has nothing else to do.
    */
  private val running = QueryCase("running sums", "update") {
    _.groupBy("key")
      .agg(count("*").as("rows"), sum("value"), max("id"))
      .withColumn(
        "rows",
        when(col("key").endsWith("1"), expr("laneshift_cost(rows, 400, 'wait')")).otherwise(col("rows"))
      )
  }
  private val runningRows = TestInput.rows(seed = 6, first = 0, count = 12000, keys = 20)

  private def runRealTime(options: Seq[(String, String)]): (Seq[org.apache.spark.sql.Row], Seq[String]) =
    withFolder { at =>
      withConf(options: _*) {
        val life = new RealTimeLife(spark, running, at, "1 second")
        val state = life.run(runningRows)
        (life.rows, state)
      }
    }

  private lazy val runningStock = runRealTime(ElasticSession.Stock)

  private def realTime(): Unit = {
    val (stockRows, stockState) = runningStock
    val (rows, state) = runRealTime(ElasticSession.moving(7L))
    PairCheck.sameRows("running sums", stockRows, rows)
    PairCheck.sameOrderPerKey("running sums", stockRows, rows)
    assert(stockState == state, "state rows")
  }

  /** Nothing is ever evicted: a wrong row stays. */
  private val kept = QueryCase("sums", "update")(_.groupBy("key").agg(sum("value")))

  /** A batch with rows follows another one at once: the watermark rises between them. */
  private val summed = QueryCase("windowed sums", "append", stepped = true)(
    _.withWatermark(
      "time",
      "1 second"
    ).groupBy(window(col("time"), "2 seconds"), col("key")).agg(sum("value"))
  )
  private val summedChunks = (0 until 4).map(i => TestInput.rows(seed = 9, i * 100L, 100))

  private def rescaled(
      options: Seq[(String, String)],
      change: (RescaleRun, Int) => Unit,
      query: QueryCase = summed
  ): (Seq[String], Seq[String]) =
    withFolder { at =>
      withConf(("spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2") +: options: _*) {
        val run = new RescaleRun(spark, query, at, Map.empty)
        run.start()
        try {
          summedChunks.zipWithIndex.foreach { case (chunk, i) =>
            change(run, i)
            run.add(chunk)
            run.await()
          }
          val rows = run.rows.toSeq.sortBy(_._1).flatMap(_._2).map(_.toString)
          (rows.sorted, MicroBatchRun.stateRows(spark, run.query, at).map(_.replaceFirst("/\\d+", "")).sorted)
        } finally {
          TakeOver.held = false
          run.query.stop()
        }
      }
    }

  private lazy val keptStock = rescaled(ElasticSession.Stock, (_, _) => (), kept)._2

  private lazy val summedStock = rescaled(ElasticSession.Stock, (_, _) => ())

  private def rescale(): Unit = assert(
    summedStock == rescaled(
      ElasticSession.moving(9L),
      (run, i) => if (i == 1) run.ask(4) else if (i == 2) run.letTakeOver()
    )
  )

  /** By versions alone, with changelogs: then a snapshot that does not belong there is taken for the newest. */
  private def killedRescale(): Unit = {
    val options = Seq(
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "1",
      "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "true"
    )
    withFolder { at =>
      val run = new RescaleRun(spark, kept, at, Map.empty)
      try {
        withConf(ElasticSession.moving(9L) ++ options: _*) {
          run.start()
          run.add(summedChunks.head)
          run.await()
          run.ask(4)
          run.add(summedChunks(1))
          run.await()
          run.letTakeOver()
          TakeOver.passed = step => if (step == "placed") throw new ControlThrowable("killed") {}
          run.add(summedChunks(2))
          RescaleRun.execution(run.query).queryExecutionThread.join(60000)
          TakeOver.passed = _ => ()
        }
        val state = withConf(ElasticSession.Stock ++ options: _*) {
          run.start()
          // Spark refuses to start, and laneshift mends it; the bug is that it starts.
          if (Try(run.await()).isFailure) {
            TakeOver.repair(at.toUri.toString, spark)
            run.start()
            run.await()
          }
          run.query.stop()
          // The stores are read anew.
          run.start()
          run.add(summedChunks(3))
          run.await()
          MicroBatchRun.stateRows(spark, run.query, at).map(_.replaceFirst("/\\d+", "")).sorted
        }
        assert(state == keptStock)
      } finally {
        TakeOver.passed = _ => ()
        TakeOver.held = false
        run.query.stop()
      }
    }
  }
}
