package org.apache.spark.sql.laneshift.kills

import java.nio.file.{Files, Path, Paths}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
import org.apache.spark.sql.laneshift.{Asked, ElasticSession, LaneshiftPlugin, RealTimeRun}
import org.apache.spark.sql.laneshift.driver.{DriverState, PartitionSite}
import org.apache.spark.sql.laneshift.proto.{ControlMessages => pb}
import org.apache.spark.sql.streaming.StreamingQuery

/** `make deep ROOMS=kills ONLY=HostKills`: executors that run lanes of other executors' partitions killed with SIGKILL under
  * Real-time queries that check their own rows. No task may fail, and no query. Throws at the first lost, doubled or reordered
  * row, if a task fails, and if the state in the end is not what the input says.
  */
object HostKills {
  private val Keys = 60

  /** Rows that have gone in and not yet come out: what the source, which takes about a millisecond for a row, does in a second. */
  private val MostWaiting = 1000L

  def main(args: Array[String]): Unit = {
    val kills = args(0).toIntOption.filter(_ >= 2).getOrElse {
      System.err.println(
        s"KILLS is '${args(0)}'; allowed are whole numbers from 2, as in make deep ROOMS=kills KILLS=100"
      )
      sys.exit(2)
    }
    val seed = if (args.length > 1) args(1).toLong else System.nanoTime() % 1000000L
    println(s"$kills kills of hosts, seed $seed")
    val begun = System.nanoTime()
    val spark = session()
    val failed = new AtomicInteger
    spark.sparkContext.addSparkListener(new SparkListener {
      override def onTaskEnd(event: SparkListenerTaskEnd): Unit = if (event.taskInfo.failed) {
        println(s"a task has failed: ${event.reason}")
        failed.incrementAndGet()
      }
    })
    val lives = Validator.all.map(run(spark, _, seed, kills / Validator.all.size, failed))
    val waits = lives.flatMap(_._2).sorted
    println(
      f"${waits.size}%d hosts killed, ${lives.map(_._1).sum}%,d rows: 0 lost, doubled or reordered, 0 failed tasks; " +
        f"rows came again after ${waits(waits.size / 2)}%d ms (median), ${waits.last}%d ms at most; " +
        f"${(System.nanoTime() - begun) / 1e9}%.0f s; seed $seed"
    )
    System.exit(0)
  }

  private def session(): ClassicSession = org.apache.spark.sql.SparkSession
    .builder()
    .master("local-cluster[5,2,768]")
    .config("spark.plugins", classOf[LaneshiftPlugin].getName)
    .config("spark.ui.enabled", "false")
    .config("spark.executor.memory", "700m")
    .config("spark.executor.extraClassPath", System.getProperty("java.class.path"))
    .config(
      "spark.executor.extraJavaOptions",
      s"-Dlaneshift.test.log=${System.getProperty("laneshift.test.log")}.executors"
    )
    .config("spark.deploy.maxExecutorRetries", "-1")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
    .config("spark.sql.streaming.realTimeMode.minBatchDuration", "1s")
    .config("spark.shuffle.streaming.networkBufferMaxWaitTimeMs", "1")
    .config("spark.sql.laneshift.lanes", "2")
    .config("spark.sql.laneshift.shardsPerPartition", "16")
    .getOrCreate()
    .asInstanceOf[ClassicSession]

  /** The rows, and for each kill after how many milliseconds rows came out again. */
  private def run(
      spark: ClassicSession,
      validator: Validator,
      seed: Long,
      kills: Int,
      failed: AtomicInteger
  ): (Long, Seq[Long]) = ElasticSession.withFolder { folder =>
    val session = spark
    import session.implicits._
    val random = new Random(seed)
    val counts = new Array[Long](Keys)
    val input = LowLatencyMemoryStream[Numbered](spark, 1)
    def feed(rows: Int): Unit = input.addData(
      0,
      Seq.fill(rows) {
        val key = random.nextInt(Keys)
        counts(key) += 1
        Numbered(key, counts(key) - 1)
      }
    )
    val answers = validator.build(input.toDF(), realTime = true)
    val query =
      RealTimeRun.start(
        answers,
        validator.outputMode,
        folder.resolve(validator.name),
        new CheckingWriter(validator),
        duration = "30 minutes"
      )
    val waits = Seq.newBuilder[Long]
    try {
      feed(200)
      until(query, "a partition")(site(query).exists(_.view.rowsOut > 0))
      (1 to kills).foreach { kill =>
        val hosts = idleExecutors(2)
        val elsewhere = pb.Elsewhere.newBuilder()
        hosts.foreach(elsewhere.putLanes(_, 1))
        Asked.lanes(Asked.wish(query.id.toString, Some(0), 2).setElsewhere(elsewhere))
        until(query, s"lanes on $hosts: ${site(query).map(_.view.elsewhereNote)}") {
          site(query).exists { s =>
            // However long lanes take to begin, what is to come out after the kill is about this.
            if (counts.sum - s.view.rowsOut < MostWaiting) feed(50)
            val there = s.view.elsewhere
            there.size == 2 && there.forall(r => r.open && r.rowsSent > 20)
          }
        }
        feed(300)
        Thread.sleep(random.nextInt(200).toLong)
        kill9(hosts(random.nextInt(hosts.size)))
        val since = System.nanoTime()
        // Rows that went in after the kill come out: of every shard, so of the lost lane's.
        feed(60)
        val due = counts.sum
        until(
          query,
          s"$due rows after a kill: ${site(query).map(told)}"
        )(site(query).exists(_.view.rowsOut >= due))
        waits += (System.nanoTime() - since) / 1000000L
        if (failed.get > 0) throw new Wrong(s"a task has failed at kill $kill")
      }
      val due = counts.sum
      until(query, "all rows")(site(query).exists(_.view.rowsOut >= due))
    } finally query.stop()
    query.exception.foreach(e => throw e)
    println(s"${validator.name}: $kills kills")
    (counts.sum, waits.result())
  }

  private def site(query: StreamingQuery): Option[PartitionSite] =
    DriverState.get.toSeq.flatMap(_.executors.partitions())
      .find(p => p.view.spec.key.runId == query.runId.toString && p.view.spec.key.operatorId == 0L)

  private def told(site: PartitionSite): String = {
    val v = site.view
    s"${v.rowsIn} rows in, ${v.rowsOut} out, queued ${v.queueRows.sum}, batch ${v.spec.batchId} on ${site.executor.id}; " +
      s"elsewhere ${v.elsewhere.mkString(", ")}; ${v.elsewhereNote}"
  }

  private def idleExecutors(count: Int): Seq[String] = {
    def idle = DriverState.get.toSeq.flatMap(_.executors.inventory()).filter(_.activeTasks == 0).map(_.id)
    val deadline = System.nanoTime() + 120L * 1000000000L
    while (idle.size < count && System.nanoTime() < deadline) Thread.sleep(50L)
    idle.sortBy(-_.toInt).take(count)
  }

  private def until(query: StreamingQuery, what: => String)(there: => Boolean): Unit = {
    val deadline = System.nanoTime() + 60L * 1000000000L
    while (!there) {
      query.exception.foreach(e => throw e)
      if (System.nanoTime() > deadline) throw new Wrong(s"$what: not there after a minute")
      Thread.sleep(10L)
    }
  }

  private def kill9(executor: String): Unit = {
    val process = ProcessHandle.current().children().iterator().asScala
      .find(p => arguments(p).sliding(2).exists(_ == Seq("--executor-id", executor)))
      .getOrElse(throw new Wrong(s"executor $executor is not a process of this one"))
    process.destroyForcibly()
    ()
  }

  private def arguments(process: ProcessHandle): Seq[String] = {
    val path: Path = Paths.get(s"/proc/${process.pid}/cmdline")
    new String(Files.readAllBytes(path), "UTF-8").split('\u0000').toSeq
  }
}
