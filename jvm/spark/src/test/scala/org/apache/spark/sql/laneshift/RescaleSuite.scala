package org.apache.spark.sql.laneshift

import java.nio.file.Files
import java.util.UUID
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch}
import java.util.concurrent.TimeUnit.SECONDS
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.SparkEnv
import org.apache.spark.scheduler.{SparkListener, SparkListenerStageSubmitted}
import org.apache.spark.sql.execution.streaming.state.{StateStoreId, StateStoreProviderId}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.rescale.{LiveRescale, NotRescalable, RescaleState, TakeOver}
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}

import laneshift.testing.{Deep, LimitedSuite}

/** A running query gets other state partitions while rows keep coming, in Real-time Mode, too; what cannot be is refused or
  * given up, and the query has noticed nothing.
  */
class RescaleSuite extends LimitedSuite with RescaleSession {
  private val format = "spark.sql.streaming.stateStore.checkpointFormatVersion"

  for ((version, name) <- Seq("1" -> "without", "2" -> "with"))
    test(s"3, 6, 2 partitions while batch follows batch, $name checkpoint ids", Deep.Policies) {
      withConf(format -> version) {
        elastic { (run, at) =>
          val wanted = Iterator(6, 2)
          chunks.zipWithIndex.foreach { case (chunk, i) =>
            run.add(chunk)
            if (i < 2) run.await()
            val free = run.rescales.lastOption.forall(_.state.ended)
            if (i >= 2 && free && wanted.hasNext) run.rescales += RescaleRun.ask(run.query, wanted.next())
            Thread.sleep(100)
          }
          run.await()
          // Whatever is still to come needs batches.
          while (wanted.hasNext || run.rescales.exists(!_.state.ended)) {
            if (run.rescales.forall(_.state.ended)) run.rescales += RescaleRun.ask(run.query, wanted.next())
            run.add(Nil)
            run.await()
            run.add(Seq(TestInput.rows(seed = 1, 0, 1).head.copy(key = "last")))
            run.await()
            Thread.sleep(50)
          }
          assert(
            run.rescales.map(_.state) == Seq(RescaleState.Done, RescaleState.Done),
            run.rescales.map(_.failure)
          )
          assert(RescaleRun.execution(run.query).lastExecution.numStateStores == 2)
          val state = MicroBatchRun.stateRows(spark, run.query, at).filterNot(_.contains("\"last\""))
          assert(withoutPartition(state) == withoutPartition(stock(chunks.size).state))
          assert(!Files.exists(at.resolve("laneshift-rescale")))
        }
      }
    }

  for ((tasks, wanted) <- Seq("stock" -> 5, "2" -> 7))
    test(s"Real-time Mode, 3 and $wanted partitions in $tasks tasks", Deep.Policies)(realTime(tasks, wanted))

  private def realTime(tasks: String, wanted: Int): Unit = {
    val query = RealTimePairSuite.cases.head
    val rows = TestInput.rows(seed = 62, first = 0, count = 3000, keys = 60)
    def life(options: Seq[(String, String)], rescale: Boolean) = withFolder { at =>
      withConf(options: _*) {
        val life = new RealTimeLife(spark, query, at)
        life.add(rows.take(1000))
        val running = life.start()
        try {
          life.await(running)
          if (rescale) {
            val asked = RescaleRun.ask(running, wanted, slots = 9)
            life.add(rows.slice(1000, 2000))
            Patience.until(running)(asked.state.ended)
            assert(asked.state == RescaleState.Done, asked.failure)
            val tooMany = if (tasks == "stock") 8 else 4
            val e = intercept[NotRescalable](RescaleRun.ask(running, 9, slots = tooMany))
            assert(e.getMessage.contains(s"and there are $tooMany"))
          } else life.add(rows.slice(1000, 2000))
          life.add(rows.drop(2000))
          life.await(running)
          running.stop()
          (life.rows, life.state(running))
        } finally running.stop()
      }
    }
    val (stockRows, stockState) = life(ElasticSession.Stock, rescale = false)
    val (liveRows, liveState) =
      life(ElasticSession.moving(7L) :+ ("spark.sql.laneshift.tasks" -> tasks), rescale = true)
    PairCheck.sameRows("sums", stockRows, liveRows)
    PairCheck.sameOrderPerKey("sums", stockRows, liveRows)
    assert(withoutPartition(stockState) == withoutPartition(liveState))
    assert(liveState.exists(_.startsWith(s"0/${wanted - 1}: ")))
  }

  /** Two tasks of the source, one for each of 3 partitions, and what a rescale has beside them. */
  test("slots for Real-time batches and a rescale are both there, or it is refused") {
    def refused(query: StreamingQuery, partitions: Int, slots: Int, needed: Int): Unit = {
      val e = intercept[NotRescalable](RescaleRun.ask(query, partitions, slots))
      assert(e.getMessage.contains(s"slots for $needed tasks, 1 of them for the rescale"), e.getMessage)
      assert(e.getMessage.contains(s"and there are $slots"))
    }
    elastic { (run, _) =>
      run.add(chunks.head)
      run.await()
      withFolder { at =>
        withConf(ElasticSession.moving(7L) :+ ("spark.sql.laneshift.tasks" -> "stock"): _*) {
          val life = new RealTimeLife(spark, RealTimePairSuite.cases.head, at)
          life.add(chunks.head)
          val realTime = life.start()
          try {
            life.await(realTime)
            refused(realTime, partitions = 4, slots = 6, needed = 7)
            // With the old number, which it has until then.
            refused(realTime, partitions = 2, slots = 5, needed = 6)
            // Another query's beside it: that waits for data.
            refused(run.query, partitions = 5, slots = 5, needed = 6)
            val waits = RescaleRun.ask(run.query, 5, slots = 6)
            val e = intercept[NotRescalable](RescaleRun.ask(realTime, 2, slots = 6))
            assert(e.getMessage.contains("slots for 7 tasks, 2 of them for the rescale"), e.getMessage)
            assert(waits.cancel())
            assert(RescaleRun.ask(realTime, 4, slots = 7).cancel())
            life.add(chunks(1))
            life.await(realTime)
          } finally realTime.stop()
        }
      }
    }
  }

  /** A Real-time batch does not begin if it finds too few free slots. */
  test("what runs beside the query has one task at a time, which has one old store open") {
    val reads = new AtomicInteger
    TakeOver.passed = step => if (step == "reading") { reads.incrementAndGet(); () }
    val tasks = new ConcurrentLinkedQueue[Int]
    val listener = new SparkListener {
      override def onStageSubmitted(stage: SparkListenerStageSubmitted): Unit =
        if (
          Option(stage.properties.getProperty("spark.jobGroup.id")).exists(_.startsWith(LiveRescale.JobGroup))
        ) {
          tasks.add(stage.stageInfo.numTasks)
          ()
        }
    }
    spark.sparkContext.addSparkListener(listener)
    try elastic { (run, _) =>
        begin(run)
        val rescale = run.rescales.last
        Patience.until(run.query)(rescale.state == RescaleState.Ready)
        val building = tasks.size
        assert(reads.get == 3)
        run.add(chunks(2))
        run.await()
        Patience.until(run.query)(rescale.lag == 0)
        run.letTakeOver()
        run.add(chunks(3))
        run.await()
        assert(rescale.state == RescaleState.Done, rescale.failure)
        Patience.until(run.query)(tasks.size > building)
        assert(tasks.asScala.forall(_ == 1), tasks)
      }
    finally {
      TakeOver.passed = _ => ()
      spark.sparkContext.removeSparkListener(listener)
    }
  }

  test("what cannot be is refused, and the query goes on") {
    elastic { (run, at) =>
      def refused(partitions: Int, why: String): Unit = {
        val e = intercept[NotRescalable](RescaleRun.ask(run.query, partitions))
        assert(e.getMessage.contains(why))
      }
      refused(5, "no batch of it has ended yet")
      run.add(chunks.head)
      run.await()
      refused(0, "Found 0; wanted 1 or more")
      refused(-1, "Found -1")
      refused(3, "another number than the 3 of now")
      WatchedFileSystem.free = Some(10L)
      try refused(5, "and only 10 are free where it is")
      finally WatchedFileSystem.free = None
      assert(!Files.exists(at.resolve("laneshift-rescale")))
      run.ask(5)
      refused(4, "A rescale to 5 partitions is under way")
      run.add(chunks(1))
      run.await()
      assert(run.query.isActive)
    }
    // What EXPLAIN says meanwhile.
    def never(why: String, query: QueryCase, options: (String, String)*): String =
      elastic(query, options: _*) { (run, _) =>
        run.add(chunks.head)
        run.await()
        val e = intercept[NotRescalable](RescaleRun.ask(run.query, 5))
        assert(e.getMessage.contains(why))
        MicroBatchRun.planOf(run.query)
      }
    never("spark.sql.laneshift.enabled is false", sums, "spark.sql.laneshift.enabled" -> "false")
    val unload = "spark.sql.streaming.stateStore.unloadOnCommit"
    never(s"$unload is true", sums, unload -> "true")
    val retained = "spark.sql.streaming.minBatchesToRetain"
    never(s"$retained is 1", sums, retained -> "1")
    never(
      "its key is shuffled as",
      TransformWithStatePairSuite.widened,
      "spark.sql.shuffle.partitions" -> "1"
    )
    never("no stateful operator", QueryCase("no state", "append")(_.select("key")))
    never(
      "stateStoreSave has one key",
      QueryCase("no key", "complete")(_.agg(count("*"))),
      "spark.sql.shuffle.partitions" -> "1"
    )
    val join = QueryCase("join", "append")(JoinCases.join("inner")(_))
    val old = "its join keeps state in format 4"
    assert(never(
      old,
      join,
      "spark.sql.streaming.join.stateFormatVersion" -> "4"
    ).contains(s"no rescale: $old"))
    elastic { (run, at) =>
      run.add(chunks.head)
      val running = run.source
        .withWatermark("time", "1 second")
        .groupBy(window(col("time"), "4 seconds"))
        .count()
        .writeStream
        .format("parquet")
        .option("checkpointLocation", at.resolve("other").toString)
        .trigger(Trigger.ProcessingTime(0L))
        .start(at.resolve("files").toString)
      try {
        running.processAllAvailable()
        val e = intercept[NotRescalable](RescaleRun.ask(running, 5))
        assert(e.getMessage.contains("file sink"))
      } finally running.stop()
    }
  }

  test("it can be cancelled, and asked for again") {
    elastic { (run, at) =>
      run.add(chunks.head)
      run.await()
      run.ask(5)
      assert(run.rescales.last.cancel())
      run.ask(5)
      run.add(chunks(1))
      run.await()
      Patience.until(run.query)(run.rescales.last.state == RescaleState.Ready)
      assert(run.rescales.last.cancel())
      run.add(chunks(2))
      run.await()
      assert(RescaleRun.execution(run.query).lastExecution.numStateStores == 3)
      Patience.until(run.query)(!Files.exists(at.resolve("laneshift-rescale")))
      run.ask(4)
      run.add(chunks(3))
      run.await()
      run.letTakeOver()
      run.add(chunks(4))
      run.await()
      assert(run.rescales.last.state == RescaleState.Done && !run.rescales.last.cancel())
      assert(RescaleRun.execution(run.query).lastExecution.numStateStores == 4)
    }
  }

  for ((version, name) <- Seq("1" -> "without", "2" -> "with"))
    test(s"stores that were built on this executor are not fetched, $name checkpoint ids") {
      withConf(format -> version) {
        elastic { (run, at) =>
          def fetched = WatchedFileSystem.fetched.asScala.filter(_.contains(s"${at.getFileName}/"))
          begin(run)
          run.letTakeOver()
          TakeOver.passed = step => if (step == "done") WatchedFileSystem.fetched.clear()
          try {
            run.add(chunks(2))
            run.await()
          } finally TakeOver.passed = _ => ()
          val rescale = run.rescales.last
          assert(rescale.state == RescaleState.Done, rescale.failure)
          assert(RescaleRun.execution(run.query).lastExecution.numStateStores == 5)
          assert(fetched.isEmpty)
          val coordinator = spark.streams.stateStoreCoordinator
          val root = s"${RescaleRun.execution(run.query).resolvedCheckpointRoot}/state"
          val places = (0 until 5).map(p =>
            coordinator.getLocation(StateStoreProviderId(StateStoreId(root, 0, p), run.query.runId))
          )
          assert(places.forall(_.nonEmpty))
          // A run that has nothing of them here fetches.
          run.stop()
          run.start()
          run.add(chunks(3))
          run.await()
          assert(fetched.nonEmpty)
        }
      }
    }

  for (version <- Seq("1", "2"))
    test(
      s"one that takes longer than Spark keeps batches, checkpoint format $version",
      Deep.Pairs.unless(version == "2"): _*
    )(RescaleChecks.longerThanBatchesAreKept(this, version))

  test("a batch of Spark's own is not undone")(RescaleChecks.sparksOwnBatchStays(this))

  for ((version, name) <- Seq("1" -> "without", "2" -> "with")) {
    test(
      s"another driver's batch is no take-over, $name checkpoint ids",
      Deep.Kills.unless(version == "2"): _*
    ) {
      withConf(format -> version)(RescaleChecks.anothersBatchIsNoTakeOver(this))
    }

    test(
      s"a take-over that another driver undoes ends without a commit, $name checkpoint ids",
      Deep.Kills.unless(version == "1"): _*
    ) {
      withConf(format -> version)(RescaleChecks.anotherUndoesIt(this))
    }
  }

  test("Spark's maintenance of the old stores leaves the tables of the new ones") {
    withConf("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "false")(
      RescaleChecks.tablesOutliveMaintenance(this)
    )
  }

  for (step <- Seq("caught up", "offsets"))
    test(
      s"a query that stops in a take-over that is $step lets its new stores go",
      Deep.Kills.unless(step == "offsets"): _*
    ) {
      elastic { (run, at) =>
        begin(run)
        run.letTakeOver()
        val reached = new CountDownLatch(1)
        TakeOver.passed = passed =>
          if (passed == step) {
            reached.countDown()
            new CountDownLatch(1).await()
          }
        try {
          val rescale = run.rescales.last
          val folder = at.resolve("laneshift-rescale")
          val id = Using.resource(Files.list(folder))(
            _.iterator.asScala.map(_.getFileName.toString).filter(_.contains("-")).toSeq.head
          )
          val root = s"${RescaleRun.execution(run.query).resolvedCheckpointRoot}/laneshift-rescale/$id/state"
          def places = (0 until 5).flatMap(p =>
            spark.streams.stateStoreCoordinator.getLocation(
              StateStoreProviderId(StateStoreId(root, 0, p), UUID.fromString(id))
            )
          )
          run.add(chunks(2))
          assert(reached.await(60, SECONDS))
          assert(places.size == 5)
          run.query.stop()
          Patience.until(run.query)(
            rescale.state.ended && places.isEmpty && !Files.exists(folder.resolve(id))
          )
          assert(rescale.state == RescaleState.Failed && rescale.failure.exists(_.contains("has ended")))
          assert(Files.exists(folder) == (step == "offsets"))
        } finally TakeOver.passed = _ => ()
        run.start()
        run.await()
        assert(!Files.exists(at.resolve("laneshift-rescale")))
        assert(RescaleRun.execution(run.query).lastExecution.numStateStores == 3)
        if (step != "offsets") {
          val state = MicroBatchRun.stateRows(spark, run.query, at)
          assert(withoutPartition(state) == withoutPartition(stock(3).state))
        }
      }
    }

  test("the stores of partitions that there are no more are let go") {
    elastic { (run, at) =>
      run.add(chunks.head)
      run.await()
      val root = s"${RescaleRun.execution(run.query).resolvedCheckpointRoot}/state"
      def isOpen(partition: Int) = spark.streams.stateStoreCoordinator.verifyIfInstanceActive(
        StateStoreProviderId(StateStoreId(root, 0, partition), run.query.runId),
        SparkEnv.get.executorId
      )
      assert((0 until 3).forall(isOpen))
      run.ask(2)
      run.add(chunks(1))
      run.await()
      (2 until 5).foreach { i =>
        if (i == 2) run.takeOver(chunks(i))
        else {
          run.add(chunks(i))
          run.await()
        }
      }
      assert((0 until 3).map(isOpen) == Seq(true, true, false))
      val state = MicroBatchRun.stateRows(spark, run.query, at)
      assert(withoutPartition(state) == withoutPartition(stock(5).state))
    }
  }

  test("a query that stops takes its rescale with it") {
    elastic { (run, at) =>
      begin(run)
      val rescale = run.rescales.last
      run.query.stop()
      Patience.until(run.query)(rescale.state.ended && !Files.exists(at.resolve("laneshift-rescale")))
      TakeOver.held = false
      run.start()
      run.add(chunks(2))
      run.await()
      assert(RescaleRun.execution(run.query).lastExecution.numStateStores == 3)
    }
  }

  test("what looks after a checkpoint leaves one alone that a query runs on, and costs no query") {
    elastic { (run, at) =>
      begin(run)
      Patience.until(run.query)(run.rescales.last.state == RescaleState.Ready)
      TakeOver.repair(RescaleRun.execution(run.query).resolvedCheckpointRoot, spark)
      assert(Files.exists(at.resolve("laneshift-rescale")))
      run.letTakeOver()
      run.add(chunks(2))
      run.await()
      assert(run.rescales.last.state == RescaleState.Done, run.rescales.last.failure)
    }
    TakeOver.repair("nowhere://there/is/no/such", spark)
  }
}
