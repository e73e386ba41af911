package org.apache.spark.sql.laneshift

import java.nio.file.{Files, Path}
import java.nio.file.attribute.FileTime

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.scalatest.Assertions._

import org.apache.spark.sql.execution.streaming.state.RocksDBFileManager
import org.apache.spark.sql.laneshift.rescale.{Checkpoint, RescaleState, TakeOver}
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.util.Utils

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

  /** Another driver has done the batch that would be the take-over: this query ends, as stock Spark's does whose checkpoint another
    * uses.
    */
  def anothersBatchIsNoTakeOver(session: RescaleSession): Unit = session.elastic { (run, at) =>
    session.begin(run)
    run.letTakeOver()
    val last = MicroBatchRun.committed(at).last
    Seq("offsets", "commits").foreach(log => again(at.resolve(log), last))
    endsWith(run, at, last)
    assert(Files.mismatch(at.resolve(s"commits/$last"), at.resolve(s"commits/${last + 1}")) == -1)
  }

  /** Another driver starts on the checkpoint while this one takes over, undoes that, and plans its own batch. */
  def anotherUndoesIt(session: RescaleSession): Unit = session.elastic { (run, at) =>
    session.begin(run)
    run.letTakeOver()
    val last = MicroBatchRun.committed(at).last
    TakeOver.passed = step =>
      if (step == "offsets") {
        TakeOver.undo(Checkpoint.at(at.toUri.toString, session.spark))
        again(at.resolve("offsets"), last)
      }
    try endsWith(run, at, last)
    finally TakeOver.passed = _ => ()
    assert(!Files.exists(at.resolve(s"commits/${last + 1}")))
    assert(Files.mismatch(at.resolve(s"offsets/$last"), at.resolve(s"offsets/${last + 1}")) == -1)
  }

  /** What the other driver's next batch has in a log. */
  private def again(log: Path, last: Long): Unit = {
    Files.copy(log.resolve(last.toString), log.resolve(s"${last + 1}"))
    ()
  }

  private def endsWith(run: RescaleRun, at: Path, last: Long): Unit = {
    run.add(chunks(2))
    val error = intercept[StreamingQueryException](run.await())
    assert(Causes.messages(error).exists(_.toLowerCase.contains("concurren")), error)
    assert(run.rescales.last.state == RescaleState.Failed, run.rescales.last.failure)
    assert(!Files.exists(at.resolve(s"offsets/${last + 2}")))
  }

  /** Spark looks after the old stores, on its own time, while the new ones are placed beside them: it takes a table that no store
    * names, and that is older than all that are named, for one that is left of a commit that failed.
    */
  def tablesOutliveMaintenance(session: RescaleSession): Unit = session.elastic { (run, at) =>
    session.begin(run)
    run.letTakeOver()
    val hadoop = session.spark.sessionState.newHadoopConf()
    def ending(in: Path, suffix: String): Seq[Path] =
      Using.resource(Files.walk(in))(_.iterator.asScala.filter(_.toString.endsWith(suffix)).toSeq)
    var tables = Seq.empty[String]
    TakeOver.passed = {
      // As if building them had taken years.
      case "caught up" =>
        val built = ending(at.resolve("laneshift-rescale"), ".sst")
        built.foreach(Files.setLastModifiedTime(_, FileTime.fromMillis(0L)))
        tables = built.map(_.getFileName.toString)
      case "tables" =>
        (0 until 3).foreach { partition =>
          val folder = at.resolve(s"state/0/$partition")
          val snapshots = ending(folder, ".zip").size
          val own = Files.createTempDirectory("maintenance").toFile
          new RocksDBFileManager(folder.toUri.toString, own, hadoop).deleteOldVersions(1)
          Utils.deleteRecursively(own)
          assert(ending(folder, ".zip").size < snapshots, "nothing to look after")
        }
      case _ => ()
    }
    try {
      run.add(session.chunks(2))
      run.await()
    } finally TakeOver.passed = _ => ()
    assert(run.rescales.last.state == RescaleState.Done, run.rescales.last.failure)
    // They are loaded from the checkpoint where no executor has them any more.
    val left = ending(at.resolve("state"), ".sst").map(_.getFileName.toString)
    assert(tables.size >= 5 && tables.diff(left).isEmpty)
    run.add(session.chunks(3))
    run.await()
    val state = MicroBatchRun.stateRows(session.spark, run.query, at)
    assert(session.withoutPartition(state) == session.withoutPartition(session.stock(4).state))
  }

  private def files(at: Path): Seq[String] =
    Using.resource(Files.walk(at))(_.iterator.asScala.map(_.getFileName.toString).toSeq)
}
