package org.apache.spark.sql.laneshift.kills

import java.nio.file.Path
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.TaskKilled
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd, SparkListenerTaskStart}
import org.apache.spark.sql.{DataFrame, ForeachWriter, Row}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
import org.apache.spark.sql.laneshift.{ElasticSession, LaneshiftPlugin, Patience, RealTimeRun}
import org.apache.spark.sql.streaming.StreamingQuery

/** `make deep ROOMS=kills ONLY=RandomKills`: tasks and executors killed at random under queries that check their own rows, with
  * shards and lanes in constant motion. Throws at the first lost, doubled or reordered row, and if the state in the end is not
  * what the input says.
  */
object RandomKills {
  private val Keys = 60

  /** So that each kind has some. */
  private val Fewest = 12

  def main(args: Array[String]): Unit = {
    val kills = args(0).toIntOption.filter(_ >= Fewest).getOrElse {
      System.err.println(
        s"KILLS is '${args(0)}'; allowed are whole numbers from $Fewest, as in make deep ROOMS=kills KILLS=1000"
      )
      sys.exit(2)
    }
    val seed = if (args.length > 1) args(1).toLong else System.nanoTime() % 1000000L
    println(s"$kills kills, seed $seed")
    val executors = math.max(1, kills / 20)
    val realTime = math.max(2, kills / 10)
    val begun = System.nanoTime()
    val rows = withSession("local[8]") { spark =>
      val all = new KilledTasks(spark, seed)
      microBatches(spark, seed, () => all.one(), () => all.struck.get >= kills - executors - realTime) +
        Validator.all.map(realTimeLives(spark, _, seed, all, realTime / 2)).sum
    } + withSession("local-cluster[2,3,1024]") { spark =>
      val dead = new AtomicInteger
      microBatches(spark, seed + 1, () => { killExecutor(seed, dead); 1500 }, () => dead.get >= executors)
    }
    println(
      f"$kills kills (${kills - executors - realTime} tasks of micro-batches, $realTime of Real-time Mode, $executors executors), " +
        f"$rows%,d rows: 0 lost, doubled or reordered; ${(System.nanoTime() - begun) / 1e9}%.0f s; seed $seed"
    )
    // Spark's threads would keep this process.
    System.exit(0)
  }

  /** Java's options for what is killed soon: it ends before optimized code pays. */
  private[kills] val ShortLived =
    Seq("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")

  private[kills] def withSession[T](master: String, more: (String, String)*)(body: ClassicSession => T): T = {
    val spark = org.apache.spark.sql.SparkSession
      .builder()
      .master(master)
      .config("spark.plugins", classOf[LaneshiftPlugin].getName)
      .config("spark.ui.enabled", "false")
      .config("spark.executor.extraClassPath", System.getProperty("java.class.path"))
      .config(
        "spark.executor.extraJavaOptions",
        s"-Dlaneshift.test.log=${System.getProperty("laneshift.test.log")}.executors ${ShortLived.mkString(" ")}"
      )
      .config("spark.task.maxFailures", "1000")
      .config("spark.stage.maxConsecutiveAttempts", "1000")
      .config("spark.deploy.maxExecutorRetries", "-1")
      .config("spark.sql.shuffle.partitions", "3")
      .config("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
      .config("spark.sql.streaming.realTimeMode.minBatchDuration", "1s")
      .config("spark.shuffle.streaming.networkBufferMaxWaitTimeMs", "1")
      .config("spark.sql.laneshift.lanes", "3")
      .config("spark.sql.laneshift.maxLanes", "5")
      .config("spark.sql.laneshift.shardsPerPartition", "16")
      .config("spark.sql.laneshift.motion", "always")
      .config("spark.sql.laneshift.motion.interval", "2ms")
      .config(more.toMap)
      .getOrCreate()
      .asInstanceOf[ClassicSession]
    try body(spark)
    finally spark.stop()
  }

  /** Rows of every key, each key's numbered on. */
  private final class Rows(seed: Long) {
    private val random = new Random(seed)
    val counts = new Array[Long](Keys)

    def next(count: Int): Seq[Numbered] = Seq.fill(count) {
      val key = (Keys * math.pow(random.nextDouble(), 2)).toInt
      counts(key) += 1
      Numbered(key, counts(key) - 1)
    }
  }

  private[kills] def check(validator: Validator, answer: Row): Unit =
    validator.wrong(answer).foreach(what => throw new Wrong(what))

  // ---- micro-batches: a killed task is run again

  /** All validators at once, while `kill` strikes and says after how many milliseconds to strike again. Returns the rows. */
  private[kills] def microBatches(
      spark: ClassicSession,
      seed: Long,
      kill: () => Int,
      over: () => Boolean
  ): Long =
    ElasticSession.withFolder { folder =>
      val session = spark
      import session.implicits._
      val rows = new Rows(seed)
      val inputs = Validator.all.map(_ => MemoryStream[Numbered](spark, 2))
      def feed(): Unit = {
        val chunk = rows.next(1500)
        inputs.foreach(_.addData(chunk))
      }
      feed()
      spark.conf.set("spark.sql.laneshift.motion.seed", seed.toString)
      val queries = Validator.all.zip(inputs).map { case (validator, input) =>
        validator
          .build(input.toDF(), realTime = false)
          .writeStream
          .outputMode(validator.outputMode)
          .option("checkpointLocation", folder.resolve(validator.name).toString)
          .foreachBatch((answers: DataFrame, _: Long) => answers.collect().foreach(check(validator, _)))
          .start()
      }
      var batches = 0L
      try {
        // Spark cannot bear an interrupt while it loads classes (its Scala reflection remembers them as missing).
        queries.foreach(_.processAllAvailable())
        while (!over()) {
          queries.foreach(q => q.exception.foreach(e => throw e))
          Thread.sleep(kill().toLong)
          val done = queries.map(_.recentProgress.lastOption.fold(-1L)(_.batchId)).min
          if (done != batches) {
            batches = done
            feed()
          }
        }
        queries.foreach(_.processAllAvailable())
      } finally queries.foreach(_.stop())
      Validator.all.foreach(checkState(spark, _, folder, rows))
      rows.counts.sum * Validator.all.size
    }

  private def checkState(spark: ClassicSession, validator: Validator, folder: Path, rows: Rows): Unit =
    KeptState.check(spark, validator, folder.resolve(validator.name), Keys)(rows.counts(_))

  /** Kills one of the running tasks at a time. */
  private final class KilledTasks(spark: ClassicSession, seed: Long) extends SparkListener {
    private val running = ConcurrentHashMap.newKeySet[Long]
    private val random = new Random(seed)

    /** Kills of tasks that ran, and tasks that ended by it. */
    val sent, struck = new AtomicInteger
    spark.sparkContext.addSparkListener(this)

    override def onTaskStart(event: SparkListenerTaskStart): Unit = running.add(event.taskInfo.taskId)
    override def onTaskEnd(event: SparkListenerTaskEnd): Unit = {
      running.remove(event.taskInfo.taskId)
      event.reason match {
        case killed: TaskKilled if killed.reason == Reason => struck.incrementAndGet()
        case _ => ()
      }
    }

    def one(): Int = {
      val tasks = running.asScala.toSeq.sorted
      val (task, interrupt) = (random.nextInt(math.max(1, tasks.size)), random.nextBoolean())
      if (tasks.nonEmpty && spark.sparkContext.killTaskAttempt(tasks(task), interrupt, Reason))
        sent.incrementAndGet()
      random.nextInt(150)
    }
  }

  private val Reason = "killed at random"

  // ---- Real-time Mode: a killed task ends the query, which starts again from its checkpoint

  private def realTimeLives(
      spark: ClassicSession,
      validator: Validator,
      seed: Long,
      tasks: KilledTasks,
      lives: Int
  ): Long = ElasticSession.withFolder { folder =>
    val session = spark
    import session.implicits._
    val random = new Random(seed)
    val rows = new Rows(seed)
    val input = LowLatencyMemoryStream[Numbered](spark, 2)
    def feed(count: Int): Unit =
      rows.next(count).groupBy(r => math.floorMod(r.key.hashCode, 2)).foreach { case (p, r) =>
        input.addData(p, r)
      }
    def start(life: Int): StreamingQuery = {
      spark.conf.set("spark.sql.laneshift.motion.seed", (seed + life).toString)
      val answers = validator.build(input.toDF(), realTime = true)
      RealTimeRun.start(
        answers,
        validator.outputMode,
        folder.resolve(validator.name),
        new CheckingWriter(validator),
        "1 second"
      )
    }
    var life = 0
    while (life < lives) {
      val before = tasks.sent.get
      val query = start(life)
      try {
        while (query.exception.isEmpty && tasks.sent.get == before) {
          feed(random.nextInt(400))
          Thread.sleep(random.nextInt(400).toLong)
          if (query.recentProgress.nonEmpty || random.nextInt(8) == 0) tasks.one()
        }
        // Nothing comes of it if the task was at its end.
        val patience = System.nanoTime() + 3000000000L
        while (query.exception.isEmpty && System.nanoTime() < patience) Thread.sleep(20L)
      } finally query.stop()
      // The batch ends by the killed task or by what those that sent to it met.
      query.exception.foreach(e => if (tasks.sent.get == before || s"$e".contains(Wrong.Mark)) throw e)
      life += 1
    }
    feed(100)
    val last = start(lives)
    try
      Patience.until(last) {
        last.lastProgress != null && last.recentProgress.exists(_.numInputRows > 0) &&
        last.lastProgress.numInputRows == 0
      }
    finally last.stop()
    RealTimeRun.reading(spark)(checkState(spark, validator, folder, rows))
    rows.counts.sum
  }

  // ---- executors

  private def killExecutor(seed: Long, dead: AtomicInteger): Unit = {
    val random = new Random(seed + dead.get)
    Thread.sleep(random.nextInt(3000).toLong)
    // This process has no other children.
    val processes = ProcessHandle.current().children().iterator().asScala.toSeq
    if (processes.nonEmpty && processes(random.nextInt(processes.size)).destroyForcibly())
      dead.incrementAndGet()
  }
}

/** Checks what comes out of Real-time Mode as it comes. */
private final class CheckingWriter(validator: Validator) extends ForeachWriter[Row] {
  override def open(partitionId: Long, epochId: Long): Boolean = true
  override def process(row: Row): Unit = RandomKills.check(validator, row)
  override def close(errorOrNull: Throwable): Unit = ()
}
