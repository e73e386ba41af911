package org.apache.spark.sql.laneshift

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.spark.scheduler.{SparkListener, SparkListenerStageCompleted}
import org.apache.spark.sql.Encoders
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.runtime.TaskRangeRDD
import org.apache.spark.sql.streaming.StreamingQueryException

import laneshift.testing.{Deep, LimitedSuite}

/** State partitions in fewer tasks than there are, another number in every batch: the same rows as stock, in the same order per
  * key, the same state, the same counts.
  */
class TasksPairSuite extends LimitedSuite with ElasticSession {
  private val chunks = TestInput.chunks
  private val rows = TestInput.realTime
  private val drawn = "spark.sql.laneshift.motion.tasks" -> "true"

  /** Tasks of the stages that computed several partitions in one, of what `body` runs. */
  private def tasksOf(body: => RunResult): Seq[Int] = {
    val stages = new ConcurrentLinkedQueue[Int]
    val listener = new SparkListener {
      override def onStageCompleted(event: SparkListenerStageCompleted): Unit =
        if (event.stageInfo.rddInfos.exists(_.name == classOf[TaskRangeRDD].getSimpleName))
          stages.add(event.stageInfo.numTasks)
    }
    spark.sparkContext.addSparkListener(listener)
    try {
      body
      spark.sparkContext.listenerBus.waitUntilEmpty()
    } finally spark.sparkContext.removeSparkListener(listener)
    stages.asScala.toSeq
  }

  (RemotePairSuite.blocking ++ MicroBatchPairSuite.cases.takeRight(3)).zipWithIndex.foreach {
    case (query, i) =>
      test(
        s"micro-batches: ${query.name} equals stock with tasks that change",
        Deep.Pairs
      ) {
        val tasks = tasksOf(PairCheck.microBatch(spark, this, query, chunks, PairCheck.seed(200L + i), drawn))
        assert(tasks.nonEmpty && tasks.forall(Set(1, 2)), tasks)
      }
  }

  RealTimePairSuite.cases.zipWithIndex.foreach { case (query, i) =>
    test(
      s"Real-time Mode: ${query.name} equals stock with tasks that change",
      Deep.Pairs
    ) {
      val tasks = tasksOf(PairCheck.realTime(spark, this, query, rows, PairCheck.seed(230L + i), drawn))
      assert(tasks.nonEmpty && tasks.forall(Set(1, 2)), tasks)
    }
  }

  private val still = Seq(
    "spark.sql.laneshift.enabled" -> "true",
    "spark.sql.laneshift.lanes" -> "1",
    "spark.sql.laneshift.tasks" -> "2"
  )

  Seq(
    MicroBatchPairSuite.cases.head,
    MicroBatchPairSuite.cases.last,
    JoinCases.ranges(1),
    TransformWithStatePairSuite.cases.head
  ).zipWithIndex.foreach { case (query, i) =>
    test(
      s"micro-batches: ${query.name} on one lane equals stock, 7 partitions in 2 tasks",
      Deep.Pairs.unless(i == 1): _*
    ) {
      val seven = Seq("spark.sql.shuffle.partitions" -> "7")
      val tasks = tasksOf(PairCheck.microBatches(spark, this, query, chunks, still, seven: _*))
      assert(tasks.nonEmpty && tasks.forall(_ == 2), tasks)
    }

    test(
      s"micro-batches: ${query.name}, with checkpoint ids, equals stock with tasks that change",
      Deep.Pairs
    ) {
      val ids = "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2"
      assert(tasksOf(PairCheck.microBatch(
        spark,
        this,
        query,
        chunks,
        PairCheck.seed(250L),
        drawn,
        ids
      )).nonEmpty)
    }
  }

  test("nothing configured: 40 partitions in four tasks a slot equal stock") {
    val forty = Seq("spark.sql.shuffle.partitions" -> "40")
    val on = Seq("spark.sql.laneshift.enabled" -> "true")
    val tasks =
      tasksOf(PairCheck.microBatches(
        spark,
        this,
        MicroBatchPairSuite.cases.head,
        chunks.take(2),
        on,
        forty: _*
      ))
    assert(tasks.nonEmpty && tasks.forall(_ == 32), tasks)
  }

  test("what foreachBatch makes of a frame of fewer partitions, by the key that they are of")(
    TaskChecks.joinedByKey(this, still: _*)
  )

  test("functions see the number of the state partition that they work for") {
    PairCheck.microBatches(spark, this, TaskChecks.numbered, chunks, still)
    ()
  }

  test("rows of a shuffle that are lost are made again")(TaskChecks.fetchAgain(this, still: _*))

  test("a sink that takes one row of each task, and state is complete")(
    TaskChecks.oneRowOfATask(this, still :+ ("spark.sql.laneshift.tasks" -> "1"): _*)
  )

  test("while a store is committed, others of its task are worked on and committed")(
    TaskChecks.commitsBeside(this, still :+ ("spark.sql.laneshift.tasks" -> "1"): _*)
  )

  test("what is above the region and takes whole partitions keeps a task for each of them") {
    val query = QueryCase("rows of a partition", "update")(
      _.groupBy("key").count().mapPartitions(rows => Iterator(rows.size.toLong))(Encoders.scalaLong).toDF("n")
    )
    val run = PairCheck.microBatches(spark, this, query, chunks, still)
    assert(run.plan.contains("tasks stock: MapPartitions above it may work on whole partitions"), run.plan)
  }

  test("a function that fails fails the query with its error, and the checkpoint goes on") {
    val failing = udf { (sum: Long) =>
      if (TasksPairSuite.fails) throw new IllegalStateException("this sum is not for me")
      sum
    }
    val query = QueryCase("failing", "update")(
      _.groupBy("key").agg(sum("value").as("s")).withColumn("s", failing(col("s")))
    )
    withFolder { at =>
      withConf(still: _*) {
        TasksPairSuite.fails = true
        val error = intercept[StreamingQueryException](MicroBatchRun(spark, query, chunks.take(1), at))
        assert(Causes.messages(error).exists(_.contains("this sum is not for me")), error)
        TasksPairSuite.fails = false
        val again = MicroBatchRun(spark, query, chunks.take(1), at)
        assert(again.batches.flatten.nonEmpty)
        val left = Thread.getAllStackTraces.keySet.asScala.map(_.getName).filter(_.contains("of task"))
        assert(left.isEmpty, left)
      }
    }
  }

  test("more tasks than state partitions are refused as the query starts, with what is allowed") {
    withConf(still :+ ("spark.sql.laneshift.tasks" -> "4"): _*) {
      val query = MicroBatchPairSuite.cases.head
      val error = intercept[StreamingQueryException](withFolder(MicroBatchRun(spark, query, chunks, _)))
      assert(
        error.getMessage.contains("is 4, but the query has 3 state partitions: allowed are 1 to 3"),
        error
      )
    }
  }
}

object TasksPairSuite {
  @volatile private var fails = false
}
