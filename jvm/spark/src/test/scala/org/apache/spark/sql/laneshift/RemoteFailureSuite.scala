package org.apache.spark.sql.laneshift

import java.net.{InetAddress, ServerSocket}
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.scalatest.concurrent.Eventually.eventually

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProviderId, StoresOfHosts}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.lane.HostAddress
import org.apache.spark.sql.laneshift.remote.HostError
import org.apache.spark.sql.laneshift.runtime.{ElasticPartition, ElasticRuntime}
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException}

import laneshift.testing.{Deep, Hold, LimitedSuite}

/** Hosts of lanes that do not answer, fail or go away: what a partition does then. */
class RemoteFailureSuite extends LimitedSuite with ElasticSession {
  import RemoteFailureSuite._

  private val query = QueryCase("dropDuplicates", "append")(
    _.dropDuplicates("id").select(udf(pass _).apply(col("key")), col("id"))
  )

  private def chunk(i: Int) = TestInput.rows(seed = 43, i * 400L, 400)

  private def partitions(running: StreamingQuery): Seq[ElasticPartition] =
    ElasticRuntime.get.all.filter(_.view.spec.key.runId == running.runId.toString)

  private def here: HostAddress = {
    val (host, port) = ElasticRuntime.get.hostLanes.address()
    HostAddress("here", host, port)
  }

  private val still = Seq(
    "spark.sql.laneshift.enabled" -> "true",
    "spark.sql.laneshift.lanes" -> "1",
    "spark.sql.laneshift.maxLanes" -> "4",
    "spark.sql.laneshift.shardsPerPartition" -> "16",
    "spark.sql.laneshift.remote.windowBytes" -> "32k",
    // The input waits for the lanes: while it goes on, lanes may come and go.
    "spark.sql.laneshift.queueBytes" -> "1k"
  )

  /** A batch whose rows at home wait but for those that `during` lets pass; then all rows are there once, and nothing is left
    * behind.
    */
  private def heldBatch(during: (StreamingQuery, Seq[ElasticPartition]) => Unit): Unit =
    held(query) { (life, running) =>
      during(running, awaitHeld(running))
      Home.allowAll()
      life.await(running)
      life.add(large(1))
      life.await(running)
    }()

  /** A batch whose rows at home wait until `during` lets all pass, and what comes `after` the query; then the rows of two batches
    * are there once, and nothing is left behind.
    */
  private def held(query: QueryCase)(during: (MicroBatchLife, StreamingQuery) => Unit)(
      after: MicroBatchLife => Unit = _ => ()
  ): Unit = withFolder { at =>
    withConf(still: _*) {
      val life = new MicroBatchLife(spark, query, at)
      Home.allow(5)
      life.add(large(0))
      val running = life.start()
      try during(life, running)
      finally {
        Home.allowAll()
        running.stop()
      }
      after(life)
      assert(life.rows.map(_.getLong(1)).sorted == (0L until 4800L))
      Leftovers.check()
    }
  }

  /** Enough rows for each partition to be held again and again. */
  private def large(i: Int) = TestInput.rows(seed = 43, i * 2400L, 2400)

  /** The partitions, once each has a row that waits. */
  private def awaitHeld(running: StreamingQuery): Seq[ElasticPartition] = {
    Patience.until(running)(Home.held.size == 3)
    partitions(running)
  }

  /** Has `lanes` on this executor, as one elsewhere, and rows for them. */
  private def goElsewhere(running: StreamingQuery, of: Seq[ElasticPartition], lanes: Int): Unit = {
    of.foreach(_.setLanes(1, Some(Map(here -> lanes))))
    // Threads begin with the next row; shards come when those rows are done that are in the queue before the handoff.
    Home.allow(10)
    Patience.until(running)(of.forall(open(_) == lanes))
    Home.allow(100)
  }

  /** Stores that are open elsewhere, and Spark's word that it has entries of them here. */
  private def storesOfHosts(): Set[StateStoreProviderId] = {
    val found = StoresOfHosts.all
    assert(found.nonEmpty && found.forall(StateStore.isLoaded) && found.forall(location(_).nonEmpty))
    found
  }

  private def location(store: StateStoreProviderId): Option[String] =
    spark.sessionState.streamingQueryManager.stateStoreCoordinator.getLocation(store)

  private def checkGivenUp(stores: Set[StateStoreProviderId]): Unit = eventually {
    assert(stores.nonEmpty && !stores.exists(StateStore.isLoaded))
    assert(!stores.exists(location(_).nonEmpty) && StoresOfHosts.all.isEmpty)
  }(Patience.long, implicitly, implicitly)

  private def open(partition: ElasticPartition): Int = partition.view.elsewhere.count(_.open)

  test("a lane elsewhere works, and comes home when it is not wanted any more") {
    spark // with which the runtime begins
    val frames = ElasticRuntime.get.hostLanes.traffic.frames
    var stores = Set.empty[StateStoreProviderId]
    heldBatch { (running, all) =>
      val before = frames.sum
      goElsewhere(running, all, 2)
      Patience.until(running)(
        all.exists(p => p.view.lanes == 3 && p.view.routing.toSet == Set(0, 1, 2))
      )
      Patience.until(running)(frames.sum > before)
      stores = storesOfHosts()
      val counted = ElasticRuntime.get.view
      assert(counted.rowsSent > 0 && counted.bytesSent > 0 && counted.frames > 0 && counted.bytesReceived > 0)
      assert(all.map(_.view.rowsTakenElsewhere).sum > 0)
      // As who knows only of lanes at home.
      all.foreach(_.setLanes(1))
      assert(all.forall(_.view.wantedElsewhere == Seq("here" -> 2)))
      all.foreach(_.setLanes(1, Some(Map.empty)))
      Home.allow(200)
      Patience.until(running)(all.forall(p => p.view.elsewhere.isEmpty && p.view.lanes == 1))
      // Numbers inside: those of lanes elsewhere begin behind the four that may be here.
      val moves = ElasticRuntime.get.history.newest(1000)(_.key.runId == running.runId.toString).map(_._2)
      val ends = moves.flatMap(m => Seq(m.from -> m.fromExecutor, m.to -> m.toExecutor)).toSet
      assert(ends == Set(0 -> "", 4 -> "here", 5 -> "here"))
    }
    checkGivenUp(stores)
  }

  test("what lanes elsewhere have when the input of a batch ends they work on themselves", Deep.Remote) {
    withFolder { at =>
      // The lane at home holds the input up until about half of its rows are done; the window for a lane elsewhere has room for all.
      withConf(still :+ "spark.sql.laneshift.queueBytes" -> "2k": _*) {
        val life = new MicroBatchLife(spark, query, at)
        slow = true
        passed.set(0L)
        life.add(chunk(0) ++ chunk(1))
        val running = life.start()
        try {
          Patience.until(running)(passed.get > 2)
          partitions(running).foreach(_.setLanes(1, Some(Map(here -> 2))))
          life.await(running)
          val views = partitions(running).map(_.view)
          assert(views.map(_.rowsTaken).sum == 800)
          // Two of three lanes are elsewhere, but for the first rows.
          val elsewhere = views.map(_.rowsTakenElsewhere).sum
          assert(elsewhere > 400, s"$elsewhere of 800 rows")
        } finally {
          slow = false
          running.stop()
        }
        assert(life.rows.map(_.getLong(1)).sorted == (0L until 800L))
        Leftovers.check()
      }
    }
  }

  test("a host that does not take connections is left out, with the reason") {
    val closed = new ServerSocket(0, 1, InetAddress.getLoopbackAddress)
    val port = closed.getLocalPort
    closed.close()
    heldBatch { (running, all) =>
      all.foreach(_.setLanes(1, Some(Map(HostAddress("9", "127.0.0.1", port) -> 1))))
      Home.allow(10)
      Patience.until(running)(all.forall(_.view.elsewhereNote.exists(_.contains("executor 9"))))
      Patience.until(running)(all.forall(_.view.elsewhere.isEmpty))
    }
  }

  test("the end of a batch does not wait for a host that does not answer", Deep.Remote) {
    val silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress)
    try heldBatch { (running, all) =>
        all.foreach(_.setLanes(1, Some(Map(HostAddress("9", "127.0.0.1", silent.getLocalPort) -> 1))))
        Home.allow(10)
        Patience.until(running)(all.exists(_.view.elsewhere.nonEmpty))
        val since = System.nanoTime()
        Home.allowAll()
        Patience.until(running)(running.lastProgress != null)
        assert(System.nanoTime() - since < 8000000000L, "the batch waited for its host")
      }
    finally silent.close()
  }

  test("a host that goes away in the middle of its rows costs no row, and no task") {
    attempts.set(0L)
    heldBatch { (running, all) =>
      hosts.begin()
      try {
        goElsewhere(running, all, 2)
        Patience.until(running)(all.exists(p => p.view.elsewhere.exists(_.rowsSent > 3)))
        // As a killed process: its connections are gone, whatever it was at.
        ElasticRuntime.get.hostLanes.cut()
      } finally hosts.end()
      Patience.until(running)(all.forall(_.view.elsewhere.isEmpty))
      assert(all.forall(_.view.elsewhereNote.exists(_.contains("is lost"))))
    }
    assert(attempts.get == 0, "a task was run again")
  }

  private val sums = QueryCase("sums", "update")(
    _.groupBy("key").agg(sum("value"), count("*").as("n")).select(udf(pass _).apply(col("key")), col("n"))
  )

  test("where shards do not move within a batch, a host that goes away fails the task, which names it") {
    val chunks = (0 to 3).map(chunk)
    val (stockRows, stockState) = withFolder { at =>
      withConf(ElasticSession.Stock: _*) {
        val life = new MicroBatchLife(spark, sums, at)
        val states = chunks.map(life.run)
        (life.rows, states.last)
      }
    }
    withFolder { at =>
      withConf(still: _*) {
        val life = new MicroBatchLife(spark, sums, at)
        life.add(chunks(0))
        val running = life.start()
        try {
          life.await(running)
          partitions(running).foreach(_.setLanes(1, Some(Map(here -> 2))))
          life.add(chunks(1))
          life.await(running)
          val moves = ElasticRuntime.get.history.newest(1000)(_.key.runId == running.runId.toString).map(_._2)
          assert(moves.map(m => m.to -> m.toExecutor).toSet == Set(4 -> "here", 5 -> "here"))
          val plan = MicroBatchRun.planOf(running)
          assert(plan.contains("lanes 1 of at most 4 + 6 on executor here, handoff between-batches"), plan)
          Home.allow(0)
          hosts.begin()
          life.add(chunks(2))
          Patience.until(running)(Home.held.nonEmpty && partitions(running).exists(open(_) > 0))
          ElasticRuntime.get.hostLanes.cut()
          Home.allowAll()
          hosts.end()
          val error = intercept[Exception](life.await(running))
          assert(Causes(error).exists(_.contains("is lost with executor here")), error)
        } finally {
          Home.allowAll()
          hosts.end()
          running.stop()
        }
        Leftovers.check()
        val state = life.run(chunks(3))
        PairCheck.sameRows("after a lost host", stockRows, life.rows)
        assert(state == stockState, "state rows")
      }
    }
  }

  /** A batch fails since `planted` holds for lanes elsewhere, with `words`; the next one is as if nothing had been. What no thread
    * caught, which on an executor ends it.
    */
  private def failsElsewhere(query: QueryCase, planted: => Unit, words: String): Seq[Throwable] = {
    val uncaught = new ConcurrentLinkedQueue[Throwable]
    val before = Thread.getDefaultUncaughtExceptionHandler
    Thread.setDefaultUncaughtExceptionHandler { (_, error) => uncaught.add(error); () }
    try held(query) { (life, running) =>
        goElsewhere(running, awaitHeld(running), 2)
        Patience.until(running)(partitions(running).exists(p => p.view.elsewhere.exists(_.rowsSent > 0)))
        planted
        Home.allowAll()
        val error = intercept[Exception](life.await(running))
        assert(Causes(error).exists(_.contains(words)), error)
      } { life =>
        fails = None
        life.run(large(1))
      }
    finally {
      fails = None
      Thread.setDefaultUncaughtExceptionHandler(before)
    }
    // Spark's own thread of the query tells its error so, too.
    uncaught.asScala.toSeq.filterNot(_.isInstanceOf[StreamingQueryException])
  }

  test("what a function throws elsewhere fails the task as it would at home") {
    val planted: () => Throwable = () => new IllegalStateException("planted elsewhere")
    assert(failsElsewhere(query, { fails = Some(planted) }, "planted elsewhere").isEmpty)
  }

  test("what ends an executor ends the one where it came about, and only fails the task at home") {
    val planted: () => Throwable = () => new OutOfMemoryError("planted elsewhere")
    val uncaught = failsElsewhere(query, { fails = Some(planted) }, "planted elsewhere")
    assert(uncaught.nonEmpty && uncaught.forall(HostError.isFatal), uncaught)
  }

  test("a count that cannot be sent home fails the task, and nothing else") {
    val counted = spark.sparkContext.collectionAccumulator[AnyRef]("not to be sent")
    val counting = udf { (key: String) =>
      if (Thread.currentThread().getName.contains("host lane") && counts) counted.add(new Object)
      pass(key)
    }
    val query =
      QueryCase("counting", "append")(_.dropDuplicates("id").select(counting(col("key")), col("id")))
    counts = true
    try assert(failsElsewhere(query, (), "not serializable result").isEmpty)
    finally counts = false
  }
}

object RemoteFailureSuite {
  @volatile var slow = false

  /** Rows at home, of which so many pass in each partition. */
  object Home {
    private var allowed = Int.MaxValue
    private val seen = mutable.Map.empty[Int, Int].withDefaultValue(0)

    /** Of the rows from the first call after [[allowAll]] on. */
    def allow(rows: Int): Unit = synchronized {
      if (allowed == Int.MaxValue) seen.clear()
      allowed = rows
      notifyAll()
    }

    def allowAll(): Unit = allow(Int.MaxValue)

    /** Partitions with a row that waits. */
    def held: Set[Int] = synchronized(seen.collect { case (id, rows) if rows > allowed => id }.toSet)

    def pass(partition: Int): Unit = synchronized {
      seen(partition) += 1
      val mine = seen(partition)
      while (mine > allowed) wait()
    }
  }

  /** Holds rows on threads of host lanes. */
  val hosts = new Hold

  /** What rows fail with on threads of host lanes. */
  @volatile var fails = Option.empty[() => Throwable]

  /** Rows on threads of host lanes are counted. */
  @volatile var counts = false
  val passed = new AtomicLong

  /** Attempts of tasks beyond their first. */
  val attempts = new AtomicLong

  def pass(key: String): String = {
    passed.incrementAndGet()
    if (TaskContext.get().attemptNumber() > 0) attempts.incrementAndGet()
    if (Thread.currentThread().getName.contains("host lane")) {
      fails.foreach(planted => throw planted())
      hosts.pass()
    } else Home.pass(TaskContext.getPartitionId())
    if (slow) Thread.sleep(40L)
    key
  }
}
