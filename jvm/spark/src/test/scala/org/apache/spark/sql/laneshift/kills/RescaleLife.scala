package org.apache.spark.sql.laneshift.kills

import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._
import scala.util.Random
import scala.util.control.NonFatal

import org.apache.spark.sql.{DataFrame, Encoder, Encoders, SparkSession}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
import org.apache.spark.sql.laneshift.{ElasticSession, LaneshiftPlugin, MicroBatchRun}
import org.apache.spark.sql.laneshift.rescale.TakeOver
import org.apache.spark.sql.streaming.StreamingQuery

/** One life of a driver whose queries check their own rows, in a process of its own, and get other state partitions all the time.
  * It ends at a step of a take-over as a process that is killed there, or is killed from outside, or tells in the end what it has
  * found. [[RescaleKills]] starts it.
  */
object RescaleLife {

  /** What it says when its batches have begun, and what it exits with. */
  val Running = "life: running"
  val Rows = "life: rows "
  val Failed = 3
  val Refused = 4
  val Killed = 137

  /** So long it takes to read an old store. */
  val ReadingMs = 400L

  /** Spark keeps fewer batches than there are meanwhile. */
  val Forgetful: Seq[(String, String)] = Seq(
    "spark.sql.streaming.minBatchesToRetain" -> "3",
    "spark.sql.streaming.stateStore.maintenanceInterval" -> "500ms"
  )

  private val Keys = 60
  private val RowsPerBatch = 300

  /** @param halt the step at which it ends, or nothing */
  final case class Orders(folder: Path, kind: String, seed: Long, format: String, halt: String) {
    def arguments: Seq[String] = Seq(folder.toString, kind, seed.toString, format, halt)
  }

  def main(args: Array[String]): Unit = {
    val code =
      try {
        live(Orders(Paths.get(args(0)), args(1), args(2).toLong, args(3), args(4)))
        0
      } catch {
        case refused if refused.toString.contains("unfinished state repartitioning") => Refused
        case NonFatal(error) =>
          error.printStackTrace()
          Failed
      }
    // Spark's threads would keep this process.
    Runtime.getRuntime.halt(code)
  }

  private def live(orders: Orders): Unit = {
    val spark = session(orders)
    val random = new Random(orders.seed)
    TakeOver.passed = step => {
      if (step == "reading") Thread.sleep(ReadingMs)
      if (step == orders.halt) Runtime.getRuntime.halt(Killed)
    }
    val queries = Validator.all.map(start(spark, _, orders.folder))
    queries.foreach(until(_)(_.recentProgress.nonEmpty))
    println(Running)
    if (orders.kind == "last") {
      queries.foreach { q =>
        val seen = q.recentProgress.length
        until(q)(_.recentProgress.length > seen + 2)
      }
      queries.foreach(_.stop())
      val rows = Validator.all.map(check(spark, _, orders.folder)).sum
      println(s"$Rows$rows")
    } else {
      val rescaled = new Rescaled(random)
      while (true) {
        queries.foreach(_.exception.foreach(e => throw e))
        if (orders.kind == "elastic") queries.foreach(rescaled.again)
        Thread.sleep(100L)
      }
    }
  }

  private def session(orders: Orders): ClassicSession = {
    val stock = orders.kind == "stock"
    val builder = SparkSession
      .builder()
      .master("local[4]")
      .config("spark.ui.enabled", "false")
      .config("spark.sql.shuffle.partitions", "3")
      .config("spark.sql.streaming.stateStore.providerClass", classOf[RocksDBStateStoreProvider].getName)
      .config("spark.sql.streaming.stateStore.checkpointFormatVersion", orders.format)
      .config(Forgetful.toMap)
    val own = (ElasticSession.moving(orders.seed) :+ ("spark.sql.laneshift.motion.tasks" -> "true")).toMap
    val chosen =
      if (stock) builder
      else builder.config("spark.plugins", classOf[LaneshiftPlugin].getName).config(own)
    chosen.getOrCreate().asInstanceOf[ClassicSession]
  }

  private implicit val numbered: Encoder[Numbered] = Encoders.product

  /** Its source gives the same rows for the same offsets, in whatever life. */
  private def start(spark: ClassicSession, validator: Validator, folder: Path): StreamingQuery = {
    val rows = spark.readStream
      .format("rate-micro-batch")
      .option("rowsPerBatch", RowsPerBatch.toLong)
      .option("numPartitions", 2L)
      .load()
      .select("value")
      .as[Long](Encoders.scalaLong)
      .map(i => Numbered((i % Keys).toInt, i / Keys))
    validator
      .build(rows.toDF(), realTime = false)
      .writeStream
      .outputMode(validator.outputMode)
      .option("checkpointLocation", folder.resolve(validator.name).toString)
      .foreachBatch((answers: DataFrame, _: Long) =>
        answers.collect().foreach(RandomKills.check(validator, _))
      )
      .start()
  }

  private def until(query: StreamingQuery)(reached: StreamingQuery => Boolean): Unit =
    while (!reached(query)) {
      query.exception.foreach(e => throw e)
      Thread.sleep(50L)
    }

  /** The rows that the newest committed batch ends with, all of which state knows. */
  private def check(spark: ClassicSession, validator: Validator, folder: Path): Long = {
    val at = folder.resolve(validator.name)
    val batch = MicroBatchRun.committed(at).last
    val offset = """"offset":(\d+)""".r.findFirstMatchIn(
      Files.readAllLines(at.resolve(s"offsets/$batch")).asScala.last
    ).get.group(1).toLong
    KeptState.check(spark, validator, at, Keys)(key => (offset + Keys - 1 - key) / Keys)
    offset
  }
}
