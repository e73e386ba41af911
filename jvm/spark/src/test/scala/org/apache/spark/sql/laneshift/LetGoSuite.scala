package org.apache.spark.sql.laneshift

import java.util.concurrent.CountDownLatch

import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.body.ShardOfHash
import org.apache.spark.sql.laneshift.runtime.{ElasticPartition, ElasticRuntime}

import laneshift.testing.LimitedSuite

/** A lane lets a shard go while it keeps outputs of that shard back, and is busy with another one afterwards. */
class LetGoSuite extends LimitedSuite with ElasticSession {
  import LetGoSuite._

  /** Answers of the key `held` are thrown away after they were held: no output makes the lane look at those before. */
  private val query = QueryCase("counts", "update")(
    _.groupBy("key").agg(count("*").as("rows")).where(udf(pass _).apply(col("key"), col("rows")))
  )

  private val options = Seq(
    "spark.sql.laneshift.enabled" -> "true",
    "spark.sql.laneshift.lanes" -> "2",
    "spark.sql.laneshift.maxLanes" -> "2",
    "spark.sql.laneshift.shardsPerPartition" -> "16",
    "spark.sql.laneshift.balance.enabled" -> "false",
    "spark.sql.shuffle.partitions" -> "1"
  )

  private def shardOf(key: String): Int =
    new ShardOfHash(1, 16)(spark.range(1).select(hash(lit(key))).head().getInt(0))

  test("outputs of a shard that goes come before those of the lane that gets it") {
    withConf(options: _*)(withFolder { at =>
      val life = new RealTimeLife(spark, query, at, "5 minutes")
      val held = shardOf(Held)
      val key = (0 to 99).map(i => s"key-$i").find { key =>
        val shard = shardOf(key)
        shard != held && shard % 2 == held % 2
      }.get
      def add(keys: String*): Unit = life.add(keys.map(k => TestInput.rows(1, 0, 1).head.copy(key = k)))
      val running = life.start()
      try {
        def partition: ElasticPartition =
          ElasticRuntime.get.all.find(_.view.spec.key.runId == running.runId.toString).get
        def awaitQueued(rows: Long): Unit = Patience.until(running)(partition.view.queueRows.sum == rows)
        add(Held)
        Patience.until(running)(came(1).getCount == 0)
        add(key, Held, Held)
        awaitQueued(3)
        goesOn(1).countDown()
        Patience.until(running)(came(2).getCount == 0)
        // The key's first answer is there by now, and its lane is at another row.
        val to = 1 - partition.view.routing(shardOf(key))
        assert(partition.moveShard(shardOf(key), to).isRight)
        add(key)
        awaitQueued(1)
        goesOn(2).countDown()
        Patience.until(running)(life.rows.exists(_.getLong(1) == 2))
        assert(life.rows.map(row => row.getString(0) -> row.getLong(1)) == Seq(key -> 1L, key -> 2L))
      } finally {
        goesOn.foreach(_.countDown())
        running.stop()
      }
    })
  }
}

object LetGoSuite {
  val Held = "held"

  /** Of the held key's rows, the first, the second and the third. */
  private val came, goesOn = Seq.fill(4)(new CountDownLatch(1))

  def pass(key: String, rows: Long): Boolean = {
    if (key == Held) {
      came(rows.toInt).countDown()
      goesOn(rows.toInt).await()
    }
    key != Held
  }
}
