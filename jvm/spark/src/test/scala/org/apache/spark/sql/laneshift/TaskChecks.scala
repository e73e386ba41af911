package org.apache.spark.sql.laneshift

import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}

import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.fs.Path
import org.scalatest.Assertions._

import org.apache.spark.{MapOutputTrackerMaster, SparkEnv, TaskContext}
import org.apache.spark.shuffle.FetchFailedException
import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._

/** What a task of several state partitions owes to Spark. */
object TaskChecks {
  private val chunks = Seq(0, 300).map(first => TestInput.rows(seed = 4, first.toLong, 300, keys = 40))

  /** Functions see the number of the state partition that they work for. */
  val numbered: QueryCase = {
    val number = udf((_: String) => TaskContext.getPartitionId())
    QueryCase("number of the partition", "update")(
      _.groupBy("key").agg(sum("value")).withColumn("partition", number(col("key")))
    )
  }

  /** As Spark throws it where a shuffle's files are gone: the stage that wrote them runs again, and then this one does. */
  private val lost = udf { (sum: Long) =>
    if (once.getAndSet(false)) {
      val tracker = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
      throw new FetchFailedException(null, tracker.shuffleStatuses.keys.max, -1L, -1, 0, "planted")
    }
    sum
  }
  private val once = new AtomicBoolean

  private val failing = QueryCase("rows are lost once", "update")(
    _.groupBy("key").agg(sum("value").as("s")).withColumn("s", lost(col("s")))
  )

  def fetchAgain(session: ElasticSession, options: (String, String)*): Unit = {
    def run(options: Seq[(String, String)]) = session.withFolder { at =>
      once.set(true)
      session.withConf(options: _*)(MicroBatchRun(session.spark, failing, chunks, at))
    }
    val (stock, elastic) = (run(ElasticSession.Stock), run(options))
    assert(!once.get, "nothing was lost")
    stock.batches.zip(elastic.batches).foreach { case (a, b) => PairCheck.sameRows("after a loss", a, b) }
    assert(stock.state == elastic.state, "state rows")
  }

  /** Spark's operator commits before its first row in complete mode, so that a sink may leave the rest. There are more partitions
    * than a task works on at a time, and a row of each is more than may wait: some have not begun when the sink has its row.
    */
  def oneRowOfATask(session: ElasticSession, options: (String, String)*): Unit = {
    val spark = session.spark
    import spark.implicits._
    val query = QueryCase("sums", "complete")(
      _.groupBy("key").agg(sum("value")).withColumn("large", repeat(lit("x"), lit(300000)))
    )
    def state(options: Seq[(String, String)]): Seq[String] = session.withFolder { at =>
      session.withConf(options :+ ("spark.sql.shuffle.partitions" -> "9"): _*) {
        val input = MemoryStream[TestInput](implicitly[org.apache.spark.sql.Encoder[TestInput]], spark)
        val running = MicroBatchRun.start(query, input.toDF(), at) { (rows, _) =>
          rows.rdd.mapPartitions((all: Iterator[Row]) => all.take(1)).count()
          ()
        }
        try {
          chunks.foreach { chunk =>
            input.addData(chunk)
            running.processAllAvailable()
          }
          MicroBatchRun.stateRows(spark, running, at)
        } finally running.stop()
      }
    }
    assert(state(ElasticSession.Stock) == state(options), "state rows")
  }

  /** Spark plans what a body makes of a batch's rows by the partitioning that their frame claims: a join and a union of equal
    * partitions zip them.
    */
  def joinedByKey(session: ElasticSession, options: (String, String)*): Unit = {
    val spark = session.spark
    import spark.implicits._
    val sums = QueryCase("sums", "update")(_.groupBy("key").agg(sum("value").as("s")))
    val more = Seq("spark.sql.shuffle.partitions" -> "7", "spark.sql.autoBroadcastJoinThreshold" -> "-1")
    def rows(options: Seq[(String, String)]): Seq[Row] = session.withFolder { at =>
      session.withConf(options ++ more: _*) {
        val input = MemoryStream[TestInput](implicitly[org.apache.spark.sql.Encoder[TestInput]], spark)
        val found = ArrayBuffer.empty[Row]
        val running = MicroBatchRun.start(sums, input.toDF(), at) { (batch, _) =>
          val own = batch.sparkSession
          val others = own.range(40).select(concat(lit("key-"), $"id").as("key"), $"id")
          val counted = others.groupBy("key").agg(max("id"))
          val united = batch.where("s > 0").union(batch.where("s <= 0")).groupBy("key").count()
          val made = Seq(batch.join(counted, "key"), united)
          found.synchronized(found ++= made.flatMap(_.collect()))
          ()
        }
        try {
          chunks.foreach { chunk =>
            input.addData(chunk)
            running.processAllAvailable()
          }
          found.toSeq
        } finally running.stop()
      }
    }
    val stock = rows(ElasticSession.Stock)
    assert(stock.size > 80)
    PairCheck.sameRows("joined and united", stock, rows(options))
  }

  /** While a store of a task is committed, other partitions of the task are worked on, and their stores are committed: counted, not
    * timed. The first commit of the batch goes on when it has seen both.
    */
  def commitsBeside(session: ElasticSession, options: (String, String)*): Unit = {
    beside = new Beside
    // More than a task works on at a time: some have not begun when the first one is committed.
    val nine = options :+ ("spark.sql.shuffle.partitions" -> "9")
    WatchedFileSystem.creates = path => beside.file(path)
    try
      session.withFolder { at =>
        session.withConf(nine: _*)(MicroBatchRun(session.spark, watched, chunks.take(1), at))
      }
    finally WatchedFileSystem.creates = _ => ()
    assert(beside.commits.get >= 9, "no commit was seen")
    assert(beside.both, s"beside a commit: $beside")
  }

  private val watched = {
    val seen = udf { (sum: Long) =>
      beside.row()
      sum
    }
    QueryCase("rows beside commits", "update")(
      _.groupBy("key").agg(sum("value").as("s")).withColumn("s", seen(col("s")))
    )
  }

  @volatile private var beside = new Beside

  /** What goes on beside the first commit of a batch. */
  private final class Beside {
    val commits = new AtomicInteger
    private val commitsBeside, rowsBeside = new AtomicInteger
    @volatile private var first = false

    def both: Boolean = commitsBeside.get > 0 && rowsBeside.get > 0

    def row(): Unit = if (first) { rowsBeside.incrementAndGet(); () }

    /** Spark writes a store's snapshot as the last of its commit. */
    def file(path: Path): Unit =
      if (path.getName.contains(".zip") && path.getParent.getParent.getName == "0") {
        if (commits.getAndIncrement() > 0) { if (first) commitsBeside.incrementAndGet() }
        else {
          first = true
          val patience = System.nanoTime() + 20L * 1000000000L
          while (!both && System.nanoTime() < patience) Thread.sleep(5L)
          first = false
        }
      }

    override def toString: String = s"$commitsBeside other commits, $rowsBeside rows of other partitions"
  }
}
