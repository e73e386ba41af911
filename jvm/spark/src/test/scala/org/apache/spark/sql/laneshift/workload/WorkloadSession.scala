package org.apache.spark.sql.laneshift.workload

import java.nio.file.{Files, Path}

import org.scalatest.BeforeAndAfterAll

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.util.ShutdownHookManager

import laneshift.testing.LimitedSuite

/** Short cuts to run the sources. */
trait WorkloadSession extends LimitedSuite with BeforeAndAfterAll {

  /** Of the one Spark that all suites share; with options of its own. */
  protected lazy val spark: SparkSession = ElasticSession.another()

  protected def folder(): Path = {
    val path = Files.createTempDirectory("laneshift-workload")
    ShutdownHookManager.registerShutdownDeleteDir(path.toFile)
    path
  }

  override protected def afterAll(): Unit = {
    spark.streams.active.foreach(_.stop())
    super.afterAll()
  }

  protected def stream(options: (String, String)*): DataFrame =
    spark.readStream.format("laneshift-workload").options(options.toMap).load()

  protected def batch(options: (String, String)*): DataFrame =
    spark.read.format("laneshift-workload").options(options.toMap).load()

  private var started = 0

  /** Starts a query whose output is collected. */
  protected def start(
      df: DataFrame,
      trigger: Trigger,
      checkpoint: Path = folder(),
      mode: String = "append"
  ) = {
    started += 1
    val name = s"${getClass.getSimpleName}$started"
    val query = df.writeStream
      .foreach(new Collector(name))
      .outputMode(mode)
      .option("checkpointLocation", checkpoint.toString)
      .trigger(trigger)
      .start()
    new Started(query, name)
  }

  protected final class Started(val query: StreamingQuery, name: String) {

    /** The output so far. */
    def rows: Seq[Row] = Collector.rows(name)

    /** Rows that the batches took which have reported. */
    def taken: Seq[Long] = query.recentProgress.flatMap(_.sources.headOption).map(_.numInputRows).toSeq

    /** Lets the query run until its batches have taken so many rows, then stops it. */
    def stopAfter(total: Long): Seq[Row] = stopWhen(taken.sum >= total)

    def stopWhen(done: => Boolean): Seq[Row] = {
      val deadline = System.nanoTime() + 120L * 1000000000
      while (!done && query.isActive && System.nanoTime() < deadline) Thread.sleep(50)
      query.exception.foreach(throw _)
      assert(done, "the query is too slow or got stuck")
      query.stop()
      rows
    }

    def await(): Seq[Row] = {
      assert(query.awaitTermination(120000), "the query did not end")
      rows
    }
  }
}
