package org.apache.spark.sql.laneshift

import java.net.{URL, URLClassLoader}
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.lane.{LaneBody, TaskThreads}
import org.apache.spark.sql.laneshift.runtime.{ElasticPartition, ElasticRuntime}
import org.apache.spark.sql.streaming.StreamingQuery

import laneshift.testing.{Deep, Hold, LimitedSuite}

/** What becomes of a partition when its lanes cannot have what a thread needs. */
class LaneThreadsSuite extends LimitedSuite with ElasticSession {
  import LaneThreadsSuite._

  private val query = QueryCase("dropDuplicates", "append")(
    _.dropDuplicates("id").select(udf(pass _).apply(col("key")), col("id"))
  )
  private def chunk(i: Int) = TestInput.rows(seed = 41, i * 400L, 400)

  private def partitions(running: StreamingQuery): Seq[ElasticPartition] =
    ElasticRuntime.get.all.filter(_.view.spec.key.runId == running.runId.toString)

  /** A partition whose lanes have begun with their batch. */
  private def awaitWorking(running: StreamingQuery): ElasticPartition = {
    def working = partitions(running).find(p => p.view.running && p.view.lanes == 2)
    Patience.until(running)(working.nonEmpty)
    working.get
  }

  private def withThreads[T](newThread: (Runnable, String) => Thread)(body: => T): T = {
    val before = TaskThreads.newThread
    TaskThreads.newThread = newThread
    try body
    finally TaskThreads.newThread = before
  }

  /** A thread that the system has none left for. */
  private def noThread(name: String): Thread = new Thread(name) {
    override def start(): Unit = throw new OutOfMemoryError("unable to create native thread")
  }

  private val still = Seq(
    "spark.sql.laneshift.enabled" -> "true",
    "spark.sql.laneshift.lanes" -> "2",
    "spark.sql.laneshift.maxLanes" -> "4",
    // The input waits for the lanes: while it goes on there may be more of them.
    "spark.sql.laneshift.queueBytes" -> "1k"
  )

  test(
    "a lane that is to end while its body begins is interrupted when functions in Python have their worker"
  ) {
    for (usesPython <- Seq(true, false)) {
      val begins, told = new CountDownLatch(1)
      @volatile var during, after = false
      val body = new RDD[InternalRow](spark.sparkContext, Nil) {
        override protected def getPartitions: Array[Partition] = Array.empty
        override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
          begins.countDown()
          while (told.getCount > 0)
            try told.await()
            catch { case _: InterruptedException => during = true }
          during |= Thread.interrupted()
          Iterator.empty
        }
      }
      val lane = TaskThreads.newThread(
        () => {
          LaneBody.begin(body, new Partition { override def index: Int = 0 }, TaskContext.empty(), usesPython)
          after = Thread.interrupted()
        },
        "a lane that begins"
      )
      lane.start()
      begins.await()
      lane.interrupt()
      told.countDown()
      lane.join()
      assert(during != usesPython && after == usesPython)
    }
  }

  test("lanes that cannot start in the middle of a batch are not waited for, and come when they can") {
    withFolder { at =>
      withConf(still: _*) {
        val life = new MicroBatchLife(spark, query, at)
        @volatile var refused = true
        val refusals = new AtomicInteger
        withThreads((work, name) =>
          if (refused && name.contains("lane 2")) {
            refusals.incrementAndGet()
            noThread(name)
          } else new Thread(work, name)
        ) {
          held.begin()
          life.add(chunk(0))
          val running = life.start()
          try {
            val partition = awaitWorking(running)
            partition.setLanes(4)
            Patience.until(running)(refusals.get > 0)
            held.end()
            life.await(running)
            assert(partition.view.lastBatch.exists(_.lanes == 2), "more lanes than threads")
            refused = false
            life.add(chunk(1))
            life.await(running)
            assert(partition.view.lastBatch.exists(_.lanes == 4))
          } finally {
            held.end()
            running.stop()
          }
        }
        assert(life.rows.map(_.getLong(1)).sorted == (0L until 800L))
        Leftovers.check()
      }
    }
  }

  test("a task whose first lanes cannot start fails with the reason, and is run again") {
    withFolder { at =>
      withConf(still: _*) {
        val life = new MicroBatchLife(spark, query, at)
        val refusals = new AtomicInteger
        val error = withThreads((work, name) =>
          if (name.contains("lane 1")) {
            refusals.incrementAndGet()
            noThread(name)
          } else new Thread(work, name)
        ) {
          life.add(chunk(0))
          val running = life.start()
          intercept[Exception](life.await(running))
        }
        assert(
          Causes(error).exists(m => m.contains("lane 1 of partition") && m.contains("lanesPerExecutor")),
          error
        )
        assert(refusals.get > 0)
        Leftovers.check()
        life.run(chunk(1))
        assert(life.rows.map(_.getLong(1)).sorted == (0L until 800L))
      }
    }
  }

  test("every lane has the class loader of the Spark task, whoever asked for it") {
    withFolder { at =>
      withConf(still: _*) {
        val life = new MicroBatchLife(spark, query, at)
        val lanes = new ConcurrentLinkedQueue[(String, ClassLoader)]
        def begun = lanes.asScala.map(_._1).toSeq
        def noting(work: Runnable, name: String): Runnable = () => {
          lanes.add(name -> Thread.currentThread().getContextClassLoader)
          work.run()
        }
        withThreads((work, name) => new Thread(noting(work, name), name)) {
          loaders.clear()
          held.begin()
          life.add(chunk(0))
          val running = life.start()
          try {
            val partition = awaitWorking(running)
            val stranger = new Thread(() => partition.setLanes(4))
            stranger.setContextClassLoader(new URLClassLoader(Array.empty[URL], null))
            stranger.start()
            stranger.join()
            Patience.until(running)((2 to 3).forall(n => begun.exists(_.contains(s"lane $n"))))
            held.end()
            life.await(running)
          } finally {
            held.end()
            running.stop()
          }
        }
        val ofRows = loaders.asScala.toSet
        assert(ofRows.size == 1 && lanes.asScala.map(_._2).toSet == ofRows)
      }
    }
  }

  test("the balancer's turns go on after one has ended in an Error") {
    withFolder { at =>
      withConf(still: _*) {
        val life = new MicroBatchLife(spark, query, at)
        @volatile var broken = true
        val tried = new AtomicInteger
        withThreads((work, name) =>
          if (!broken || !name.contains("lane 2")) new Thread(work, name)
          else if (tried.incrementAndGet() == 1) noThread(name)
          else throw new NoSuchMethodError("planted")
        ) {
          held.begin()
          life.add(chunk(0))
          val running = life.start()
          try {
            awaitWorking(running).setLanes(4)
            Patience.until(running)(tried.get > 1)
            broken = false
            Patience.until(running)(partitions(running).exists(_.view.lanes == 4))
            held.end()
            life.await(running)
          } finally {
            held.end()
            running.stop()
          }
        }
        assert(life.rows.map(_.getLong(1)).sorted == (0L until 400L))
      }
    }
  }

  test("a lane whose completion listener throws, after all its rows, fails its task") {
    withFolder { at =>
      withConf(still: _*) {
        val life = new MicroBatchLife(spark, query, at)
        atEnd = true
        life.add(chunk(0))
        val running = life.start()
        try {
          val error = intercept[Exception](life.await(running))
          assert(Causes(error).exists(_.contains("planted at a lane's end")), error)
        } finally {
          atEnd = false
          running.stop()
        }
        Leftovers.check()
        life.run(chunk(1))
        assert(life.rows.map(_.getLong(1)).sorted == (0L until 800L))
      }
    }
  }

  test("a lane that restarts ends what its body had from the task: listeners do not gather", Deep.Motion) {
    withFolder { at =>
      val restarts = ElasticSession.moving(42L) :+
        ("spark.sql.streaming.statefulOperator.incrementalCleanupFactor" -> "2")
      withConf(restarts: _*) {
        val life = new RealTimeLife(
          spark,
          QueryCase("counts", "update")(
            _.groupBy("key").agg(count("*")).select(udf(watch _).apply(col("key")))
          ),
          at
        )
        contexts.clear()
        left.set(0)
        life.run(chunk(0))
        val ofThread = contexts.asScala.toSeq.distinct.groupBy(_._1).values.map(_.size)
        assert(ofThread.exists(_ > 1), "no lane has restarted")
        assert(left.get == 0, "contexts of bodies that had ended were still open")
      }
    }
  }

  test(
    "what the driver remembers: lanes, routing and loads of a partition that another process computes next"
  ) {
    withFolder { at =>
      withConf(still: _*) {
        val life = new MicroBatchLife(spark, query, at)
        life.add(chunk(0))
        val running = life.start()
        try {
          life.await(running)
          partitions(running).foreach(_.setLanes(3))
          (1 to 2).foreach { i =>
            life.add(chunk(i))
            life.await(running)
          }
          val before = partitions(running).map(p => p.index -> p.view).toMap
          assert(before.values.forall(_.lanes == 3) && before.values.exists(_.loads.sum > 0))
          // As in a process that has never seen them.
          ElasticRuntime.get.drop(running.runId.toString)
          assert(partitions(running).isEmpty)
          life.add(chunk(3))
          life.await(running)
          val after = partitions(running)
          assert(after.nonEmpty && after.forall(_.view.wantedLanes == 3))
          assert(after.forall(_.view.laneRows.length == 3), "lanes that ran")
        } finally running.stop()
        assert(life.rows.map(_.getLong(1)).sorted == (0L until 1600L))
      }
    }
  }

}

object LaneThreadsSuite {

  /** Holds rows. */
  val held = new Hold

  /** Of threads that had rows. */
  val loaders = new ConcurrentLinkedQueue[ClassLoader]

  /** Lanes end with a listener that throws. */
  @volatile var atEnd = false
  private val armed = java.util.concurrent.ConcurrentHashMap.newKeySet[TaskContext]()

  /** Threads of lanes and the task contexts that they had, each as text. */
  val contexts = new ConcurrentLinkedQueue[(String, Int)]

  /** Contexts that a thread left without their listeners having run. */
  val left = new AtomicInteger
  private val latest = new ThreadLocal[TaskContext]

  def watch(key: String): String = {
    val (before, now) = (latest.get, TaskContext.get())
    if (before ne now) {
      if (before != null && Thread.currentThread().getName.contains("lane") && !before.isCompleted())
        left.incrementAndGet()
      latest.set(now)
      contexts.add(Thread.currentThread().getName -> System.identityHashCode(now))
    }
    key
  }

  def pass(key: String): String = {
    if (atEnd && armed.add(TaskContext.get()))
      TaskContext.get().addTaskCompletionListener[Unit](_ =>
        throw new IllegalStateException("planted at a lane's end")
      )
    loaders.add(Thread.currentThread().getContextClassLoader)
    held.pass()
    key
  }
}
