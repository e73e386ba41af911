package org.apache.spark.sql.laneshift

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.scalatest.Assertions._

import org.apache.spark.sql.laneshift.rescale.TakeOver

/** What a rescale may never get wrong. */
object RescaleChecks {
  private val chunks = (0 until 7).map(i => TestInput.rows(seed = 71, i * 60L, 60))

  /** 3 partitions at first. */
  private val changes = Map(5 -> 5)

  /** Spark deletes, while state is read, every batch but the newest two. Values are appended to lists: a write that comes twice
    * shows.
    */
  def longerThanBatchesAreKept(session: ElasticSession, version: String): Unit = {
    val options = Seq(
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> version,
      "spark.sql.streaming.minBatchesToRetain" -> "2",
      "spark.sql.streaming.asyncLogPurge.enabled" -> "false"
    )
    val query = TransformWithStatePairSuite.cases.head
    def life(sides: Seq[(String, String)])(of: (RescaleRun, Path) => RescaleResult) = session.withFolder(at =>
      session.withConf(sides ++ options: _*)(of(new RescaleRun(session.spark, query, at, changes), at))
    )
    val stock = life(ElasticSession.Stock)((run, _) => run.stock(chunks))
    val live = life(ElasticSession.moving(71L))((run, at) =>
      run.slow(chunks, early = 4) { () =>
        assert(!MicroBatchRun.committed(at).contains(1L), "Spark keeps more of its log than it should")
        forget(at)
      }
    )
    RescaleRun.same(stock, live)
  }

  /** As Spark's maintenance does, which has its own time. */
  private def forget(at: Path): Unit = {
    val newest = MicroBatchRun.committed(at).last + 1
    val version = """(\d+)(_.*)?\.(zip|changelog)""".r
    val old = Using.resource(Files.walk(at.resolve("state")))(_.iterator.asScala.filter { file =>
      file.getFileName.toString match {
        case version(number, _, _) => number.toLong < newest - 1
        case _ => false
      }
    }.toSeq)
    assert(old.nonEmpty)
    old.foreach(Files.delete)
  }

  /** A take-over is marked, and Spark plans the batch of its number without laneshift: that one is not undone. */
  def sparksOwnBatchStays(session: ElasticSession): Unit = session.withFolder { at =>
    session.withConf(ElasticSession.Stock: _*) {
      val run = new RescaleRun(session.spark, TransformWithStatePairSuite.cases.head, at, Map.empty)
      run.start()
      try chunks.take(2).foreach { c => run.add(c); run.await() }
      finally run.query.stop()
      val last = MicroBatchRun.committed(at).last
      // As if it had been killed before its commit.
      Seq(s"commits/$last", s"commits/.$last.crc").foreach(f => Files.deleteIfExists(at.resolve(f)))
      Files.createDirectories(at.resolve("laneshift-rescale"))
      Files.writeString(at.resolve("laneshift-rescale/taking-over"), last.toString)
      TakeOver.repair(at.toUri.toString, session.spark)
      assert(!Files.exists(at.resolve("laneshift-rescale")))
      assert(Files.exists(at.resolve(s"offsets/$last")), "a batch that Spark has planned is gone")
      assert(files(at.resolve("state")).exists(_.startsWith(s"${last + 1}")), "and its state")
    }
  }

  private def files(at: Path): Seq[String] =
    Using.resource(Files.walk(at))(_.iterator.asScala.map(_.getFileName.toString).toSeq)
}
