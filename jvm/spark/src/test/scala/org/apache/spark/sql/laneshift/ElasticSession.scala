package org.apache.spark.sql.laneshift

import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentHashMap

import org.scalatest.{BeforeAndAfterAll, Suite}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
import org.apache.spark.util.Utils

import laneshift.testing.{Deep, Spent}

/** A suite's session, with the plugin, of the one Spark of this JVM, which costs seconds to start. Options, views and queries of one
  * suite are nothing to another.
  */
trait ElasticSession extends BeforeAndAfterAll { self: Suite =>
  lazy val spark: ClassicSession = ElasticSession.shared.newSession()

  def withConf[T](options: (String, String)*)(body: => T): T = ElasticSession.withConf(spark, options)(body)
  def withFolder[T](body: Path => T): T = ElasticSession.withFolder(body)
}

object ElasticSession {
  lazy val shared: ClassicSession = Spent.free {
    val made = start()
    Spent.settle = () => made.sparkContext.listenerBus.waitUntilEmpty()
    made
  }

  private val others = ConcurrentHashMap.newKeySet[ClassicSession]

  /** One whose sources give rows by a clock: how many batches its queries have is nobody's to say. */
  def another(): ClassicSession = {
    Spent.one("sessions")
    val made = shared.newSession()
    others.add(made)
    made
  }

  def isAnother(session: ClassicSession): Boolean = others.contains(session)

  private def start(): ClassicSession = SparkSession
    .builder()
    // More threads than this machine has cores: Real-time Mode runs all stages at once.
    .master("local[8]")
    .appName("laneshift tests")
    .config("spark.plugins", classOf[LaneshiftPlugin].getName)
    .config("spark.sql.streaming.streamingQueryListeners", classOf[SpentQueries].getName)
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "3")
    .config("spark.sql.streaming.stateStore.providerClass", classOf[RocksDBStateStoreProvider].getName)
    .config("spark.sql.streaming.realTimeMode.minBatchDuration", "300ms")
    .config("spark.shuffle.streaming.networkBufferMaxWaitTimeMs", "1")
    .config("spark.sql.session.timeZone", "UTC")
    // Both sides of a pair, and many suites, compile the same code.
    .config("spark.sql.codegen.cache.maxEntries", "5000")
    .config("spark.hadoop.fs.file.impl", classOf[WatchedFileSystem].getName)
    // The default one runs readlink, too, for every file.
    .config(
      "spark.sql.streaming.checkpointFileManagerClass",
      classOf[FileSystemBasedCheckpointFileManager].getName
    )
    .getOrCreate()
    .asInstanceOf[ClassicSession]

  /** Runs `body` with these options set in `session` and put back afterwards. */
  def withConf[T](session: ClassicSession, options: Seq[(String, String)])(body: => T): T = {
    val before = options.map { case (k, _) =>
      // An option that is not set reads as its default; setting that would not be the same as leaving it alone.
      k -> Option.when(session.sessionState.conf.contains(k))(session.conf.get(k))
    }
    options.foreach { case (k, v) => session.conf.set(k, v) }
    try body
    finally
      before.foreach {
        case (k, Some(v)) => session.conf.set(k, v)
        case (k, None) => session.conf.unset(k)
      }
  }

  /** A folder that is gone afterwards; Spark's maintenance may still write to it, so what cannot be deleted stays. */
  def withFolder[T](body: Path => T): T = {
    val folder = Files.createTempDirectory("laneshift-test")
    try body(folder)
    finally Utils.tryLogNonFatalError(Utils.deleteRecursively(folder.toFile))
  }

  /** How the two sides of a pair run. */
  val Stock: Seq[(String, String)] = Seq("spark.sql.laneshift.enabled" -> "false")

  /** Under motion that comes by the rows of an input only: what moves is a matter of the seed. */
  def byRows(seed: Long): Seq[(String, String)] = moving(seed, "1min")

  /** Under motion; in the deep tier by a timer, too. */
  def moving(seed: Long): Seq[(String, String)] = if (Deep.isAsked) byClock(seed) else byRows(seed)

  def byClock(seed: Long): Seq[(String, String)] = moving(seed, "2ms")

  private def moving(seed: Long, interval: String): Seq[(String, String)] = Seq(
    "spark.sql.laneshift.enabled" -> "true",
    "spark.sql.laneshift.lanes" -> "3",
    "spark.sql.laneshift.maxLanes" -> "5",
    "spark.sql.laneshift.shardsPerPartition" -> "16",
    "spark.sql.laneshift.motion" -> "always",
    "spark.sql.laneshift.motion.seed" -> seed.toString,
    "spark.sql.laneshift.motion.interval" -> interval
  )
}
