package org.apache.spark.sql.laneshift

import java.lang.management.ManagementFactory
import java.util.concurrent.atomic.AtomicLong

import com.sun.management.UnixOperatingSystemMXBean
import org.scalatest.concurrent.Eventually._

import org.apache.spark.TaskContext
import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.streaming.state.{RocksDBMemoryManager, StateStore}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.runtime.ElasticRuntime
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.util.AccumulatorContext

import laneshift.testing.{Deep, Hold, LimitedSuite}

/** Lanes that throw, tasks that are killed, queries that are stopped, all under motion: the real cause comes out, nothing is
  * left behind, and the checkpoint goes on as if nothing had happened.
  */
class FailureSuite extends LimitedSuite with ElasticSession {
  import FailureSuite._

  private val trap = udf(Trap.pass _)

  private val cases = Seq(
    QueryCase("aggregation", "update")(
      _.groupBy("key").agg(count("*"), sum("value"), max("id")).select(trap(col("key")), col("*"))
    ),
    QueryCase("dropDuplicates", "append")(_.dropDuplicates("key", "value").select(trap(col("key")), col("*")))
  )
  private val dedup = cases(1)
  private val join = QueryCase("join", "append")(
    JoinCases.join("full_outer")(_).select(trap(coalesce(col("lk"), col("rk"))), col("li"), col("ri"))
  )

  private def chunk(i: Int): Seq[TestInput] = TestInput.rows(seed = 21, i * 600L, 600, keys = 80)

  private def life(query: QueryCase, realTime: Boolean, at: java.nio.file.Path): Life =
    if (realTime) new RealTimeLife(spark, query.copy(outputMode = "update")(query.build), at)
    else new MicroBatchLife(spark, query, at)

  private val stockLives = scala.collection.mutable.Map.empty[(String, Boolean), (Seq[Row], Seq[String])]

  /** Three chunks on stock Spark: the rows of its life and the state at its end. */
  private def stock(query: QueryCase, realTime: Boolean): (Seq[Row], Seq[String]) =
    stockLives.getOrElseUpdate(
      (query.name, realTime),
      withFolder { at =>
        withConf(ElasticSession.Stock :+ joinFormat: _*) {
          val l = life(query, realTime, at)
          val states = (0 to 2).map(i => l.run(chunk(i)))
          (l.rows, states.last)
        }
      }
    )

  /** A batch that is run again is followed by the next at once: no eviction comes between, and before format 4 a join's state
    * shows in which order rows were evicted and came.
    */
  private val joinFormat = "spark.sql.streaming.join.stateFormatVersion" -> "4"

  /** Runs `accident` on the second of three chunks; the third run has to end as stock Spark's does. */
  private def withAccident(query: QueryCase, realTime: Boolean, seed: Long)(accident: Life => Unit): Unit = {
    val (stockRows, stockState) = stock(query, realTime)
    withFolder { at =>
      withConf(ElasticSession.moving(seed) :+ joinFormat: _*) {
        val l = life(query, realTime, at)
        l.run(chunk(0))
        l.add(chunk(1))
        try accident(l)
        finally Trap.disarm()
        Leftovers.check()
        val state = l.run(chunk(2))
        Leftovers.check()
        assert(stockState == state, "state rows")
        // Real-time Mode puts rows out before they are committed: a sink may see them again.
        if (realTime) assert(stockRows.toSet.subsetOf(l.rows.toSet), "rows are missing")
        else PairCheck.sameRows(query.name, stockRows, l.rows)
      }
    }
  }

  private def handoffsUnderWay(query: StreamingQuery): Int =
    ElasticRuntime.get.all.map(_.view).filter(_.spec.key.runId == query.runId.toString).map(_.inFlight).sum

  /** Has every partition of the query move all its shards: those of a lane that is held stay under way. The fault mode may be done
    * with its own moves before a lane is held, and makes none while the receiver waits.
    */
  private def moveShards(query: StreamingQuery): Unit =
    ElasticRuntime.get.all.filter(_.key.runId == query.runId.toString).foreach { partition =>
      val view = partition.view
      if (view.lanes < 2) partition.setLanes(2)
      else view.routing.zipWithIndex.foreach { case (lane, shard) =>
        partition.moveShard(shard, (lane + 1) % view.lanes)
      }
    }

  for ((query, realTime) <- cases.flatMap(q => Seq(q -> false, q -> true)) :+ (join -> false)) {
    val mode = if (realTime) "Real-time Mode" else "micro-batch"
    // The others move shards between batches only.
    val midBatch = realTime || query == dedup
    val amid = if (midBatch) "handoffs" else "rows"

    test(s"$mode, ${query.name}: a lane throws", Deep.Kills.unless(!realTime && query != cases.head): _*) {
      withAccident(query, realTime, 1L) { l =>
        Trap.throwOn("key-3")
        val error = Causes.ofTask(realTime) {
          val running = l.start()
          val error = intercept[Exception](l.await(running))
          assert(running.exception.nonEmpty)
          eventually(assert(!running.isActive))(Patience.long, implicitly, implicitly)
          error
        }
        assert(Causes.messages(error).exists(_.contains("trapped key-3")), error)
      }
    }

    test(
      s"$mode, ${query.name}: the query is stopped in the middle of $amid",
      Deep.Kills.unless(realTime != (query == dedup)): _*
    ) {
      // With little room the receiver is not done before a shard is to move.
      withConf("spark.sql.laneshift.queueBytes" -> "1k")(withAccident(query, realTime, 2L) { l =>
        Trap.hold()
        val running = l.start()
        Patience.until(running)(Trap.passed.get > Trap.Free)
        // A lane that is held comes to no end of its row, and so does not notice what is wanted of it.
        if (midBatch) Patience.until(running) {
          moveShards(running)
          handoffsUnderWay(running) > 0
        }
        running.stop()
        assert(running.exception.isEmpty, running.exception)
      })
    }
  }

  test("micro-batch: a killed task is run again, and the result is exact") {
    withAccident(dedup, realTime = false, 3L) { l =>
      Trap.hold()
      val running = l.start()
      try {
        Patience.until(running)(Trap.passed.get > Trap.Free)
        val task = Trap.task.get
        assert(spark.sparkContext.killTaskAttempt(task, interruptThread = true, "killed by the test"))
        Patience.until(running)(Trap.task.get != task)
        Trap.disarm()
        l.await(running)
      } finally running.stop()
    }
  }

  test("Real-time Mode: a killed task ends the batch, and the checkpoint goes on") {
    withAccident(cases.head, realTime = true, 4L) { l =>
      Trap.hold()
      val running = l.start()
      try {
        Patience.until(running)(Trap.passed.get > Trap.Free)
        val task = Trap.task.get
        assert(spark.sparkContext.killTaskAttempt(task, interruptThread = true, "killed by the test"))
        val error = intercept[Exception] {
          Patience.until(running)(Trap.interrupted)
          Trap.disarm()
          l.await(running)
        }
        // Spark fails the batch: by the kill, by what the tasks that sent to the killed one met, or by what its second attempt met
        // when those had ended.
        val reasons = Seq("killed by the test", "ClosedChannelException", "Connection reset", "shuffle")
        assert(Causes.messages(error).exists(c => reasons.exists(c.contains)), error)
        assert(running.exception.nonEmpty)
      } finally running.stop()
    }
  }

  test("a batch that is cancelled from outside fails with that as its cause") {
    withAccident(dedup, realTime = false, 5L) { l =>
      Trap.hold()
      val running = l.start()
      Patience.until(running)(Trap.passed.get > Trap.Free)
      spark.sparkContext.cancelAllJobs()
      val error = intercept[Exception](l.await(running))
      assert(Causes.messages(error).exists(_.toLowerCase.contains("cancel")), error)
    }
  }

  test("after many batches under motion no thread, handle, accumulator or memory has gathered", Deep.Motion) {
    def batches(n: Int): Unit = withFolder { at =>
      withConf(ElasticSession.moving(6L): _*) {
        val l = new MicroBatchLife(spark, dedup, at)
        val running = l.start()
        try (0 until n).foreach { i =>
            l.add(TestInput.rows(seed = 22, i * 60L, 60))
            l.await(running)
            assert(Leftovers.threads.isEmpty)
          }
        finally running.stop()
      }
      StateStore.unloadAll()
    }
    batches(5)
    Leftovers.check()
    val before = Handles.now
    batches(sys.env.get("LANESHIFT_BATCHES").fold(60)(_.toInt))
    Leftovers.check()
    eventually {
      val after = Handles.now
      assert(after.databases <= before.databases)
      assert(after.threads <= before.threads + 8, s"threads, before $before")
      assert(after.files <= before.files + 20, s"files, before $before")
      assert(after.accumulators <= before.accumulators + 200, s"accumulators, before $before")
    }(Patience.long, implicitly, implicitly)
  }
}

object FailureSuite {

  /** A function that lets keys pass, until it is armed. */
  object Trap {
    @volatile private var key: String = _
    private val held = new Hold

    /** Rows that pass although rows are held: fewer than any task of a chunk has. */
    val Free = 20L
    val passed = new AtomicLong

    /** Whether a row that was held has been interrupted. */
    @volatile var interrupted = false
    val task = new AtomicLong

    def pass(k: String): String = {
      val number = passed.incrementAndGet()
      task.set(TaskContext.get().taskAttemptId())
      try if (number > Free) held.pass()
      catch { case error: InterruptedException => interrupted = true; throw error }
      if (k == key) throw new IllegalStateException(s"trapped $k")
      k
    }

    def throwOn(k: String): Unit = key = k

    /** All rows wait from now on, but for the first: no task ends before [[disarm]]. */
    def hold(): Unit = { passed.set(0L); interrupted = false; held.begin() }
    def disarm(): Unit = { key = null; held.end() }
  }

  /** What the process holds. */
  final case class Handles(databases: Long, threads: Int, files: Long, accumulators: Int)

  object Handles {
    def now: Handles = Handles(
      RocksDBMemoryManager.getNumRocksDBInstances(true) + RocksDBMemoryManager.getNumRocksDBInstances(false),
      ManagementFactory.getThreadMXBean.getThreadCount,
      ManagementFactory.getOperatingSystemMXBean match {
        case unix: UnixOperatingSystemMXBean => unix.getOpenFileDescriptorCount
        case _ => 0L
      }, {
        // Spark forgets those that nobody refers to any more.
        System.gc()
        AccumulatorContext.numAccums
      }
    )
  }
}
