package org.apache.spark.sql.laneshift

import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.runtime.{Cores, ElasticRuntime, PartitionView}
import org.apache.spark.sql.laneshift.workload.WorkloadFunctions
import org.apache.spark.sql.streaming.StreamingQuery

import laneshift.testing.{Deep, LimitedSuite}

/** `lanes=auto`, the default: nobody says how many lanes a partition should have. */
class AutoLanesSuite extends LimitedSuite with ElasticSession {
  private val auto = Seq("spark.sql.laneshift.enabled" -> "true", "spark.sql.laneshift.lanes" -> "auto")

  private val loadOfMachine = Cores.machineLoad

  override def beforeAll(): Unit = {
    super.beforeAll()
    Cores.machineLoad = () => 0.0
  }

  override def afterAll(): Unit = {
    Cores.machineLoad = loadOfMachine
    super.afterAll()
  }

  private def views(running: StreamingQuery): Seq[PartitionView] =
    ElasticRuntime.get.all.map(_.view).filter(_.spec.key.runId == running.runId.toString).sortBy(_.index)

  private def cost(micros: Int) = expr(s"${WorkloadFunctions.Cost}(n, double($micros), 'wait')")

  private val blocking = QueryCase("counts", "update")(
    _.groupBy("id").agg(count("*").as("n")).withColumn("n", cost(5000))
  )
  private val rowByRow = QueryCase("deduplicated", "append")(
    _.dropDuplicates("id").select(col("id"), col("id").as("n")).withColumn("n", cost(5000))
  )

  /** Rows of `count` new ids of which all but a few are in partition 1 of 3. */
  private def skewed(batch: Int, count: Int = 400): Seq[TestInput] = {
    val session = spark
    import session.implicits._
    val first = batch * 10000L
    val hot = spark.range(first, first + 10000)
      .where("pmod(hash(id), 3) = 1 or id % 100 = 0")
      .limit(count)
      .as[Long]
      .collect()
    val row = TestInput.rows(seed = 3, 0, 1).head
    hot.toSeq.map(id => row.copy(id = id, number = (id % 2).toInt))
  }

  private def batches(
      query: QueryCase,
      count: Int,
      rows: Int = 400
  )(after: (Int, StreamingQuery) => Unit): Seq[Long] =
    withFolder { at =>
      withConf(auto: _*) {
        val life = new MicroBatchLife(spark, query, at)
        val running = life.start()
        try (0 until count).foreach { i =>
            life.add(skewed(i, rows))
            life.await(running)
            after(i, running)
          }
        finally running.stop()
        Leftovers.check()
        life.rows.map(_.getAs[Long]("id"))
      }
    }

  for (query <- Seq(blocking, rowByRow))
    test(s"${query.name}: a partition that holds up its micro-batches gets idle cores", Deep.Policies) {
      var lanes = Seq.empty[Seq[Int]]
      val ids = batches(query, 4)((_, running) => lanes :+= views(running).map(_.lastBatch.get.lanes))
      // What is known in the first batch comes from its other partitions: too late for operators that block.
      assert(query != blocking || lanes.head == Seq(1, 1, 1))
      assert(lanes.tail.exists(_(1) > 2) && lanes.count(_(1) == 1) <= 2, lanes)
      assert(ids.sorted == (0 until 4).flatMap(skewed(_).map(_.id)).sorted)
    }

  test("who sets lanes has them") {
    batches(blocking, 3, rows = 60) { (i, running) =>
      if (i == 0) {
        assert(views(running).forall(_.auto))
        Asked.lanes(Asked.wish(running.id.toString, None, 1))
      } else assert(views(running).forall(v => !v.auto && v.lastBatch.get.lanes == 1))
    }
  }

  test(
    "Real-time Mode: idle cores go to a partition that cannot keep up, in the middle of its batch",
    Deep.Policies
  ) {
    withFolder { at =>
      withConf(auto: _*) {
        val life = new RealTimeLife(spark, QueryCase("real time", "update")(rowByRow.build), at)
        val running = life.start()
        try {
          life.add(skewed(0, 1000))
          Patience.until(running)(views(running).exists(_.lanes > 1))
          assert(views(running).filter(_.lanes > 1).map(_.index) == Seq(1))
          life.await(running)
        } finally running.stop()
        assert(life.rows.map(_.getAs[Long]("id")).sorted == skewed(0, 1000).map(_.id).sorted)
        Leftovers.check()
      }
    }
  }
}
