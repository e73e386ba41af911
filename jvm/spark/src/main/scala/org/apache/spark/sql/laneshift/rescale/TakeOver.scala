package org.apache.spark.sql.laneshift.rescale

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.util.Utils

/** Makes a checkpoint go over to its twin, as a batch of its own that reads nothing: docs/rescale.md, "Take-over", which
  * names the steps and says what a kill behind each of them leaves.
  */
private[rescale] final class TakeOver(checkpoint: Checkpoint, twin: Twin) {
  import TakeOver._

  private val mark = new Mark(checkpoint)
  private var hasOffsets = false
  private var hasCommit = false
  private var isAnothers = false

  /** Goes over behind the committed batch `last`, of which the twin has the state; gives the batch that this takes. */
  def run(last: Long, partitions: Int): Long = {
    require(twin.state == last, s"the twin has the state of batch ${twin.state}, not of $last")
    val batch = last + 1
    val ids = twin.checkpointIds
    // Without ids in their names, the new files would be taken for the old layout's: they wait until Spark opens no store.
    val hidden = ids.isEmpty
    if (!hidden) place(batch, () => ())
    mark.write(batch, twin.root)
    passed("marked")
    val offsets = Checkpoint.withPartitions(checkpoint.offsets(last), partitions)
    if (!checkpoint.offsetLog.add(batch, offsets)) throw usedByAnother(s"batch $batch is there already")
    hasOffsets = true
    passed("offsets")
    if (hidden) place(batch, () => requireMine(batch))
    OperatorsMetadata.writeChanged(checkpoint, checkpoint.stateRoot, batch, partitions)
    passed("metadata")
    requireMine(batch)
    if (!checkpoint.commitLog.add(batch, checkpoint.commit(last).withStateUniqueIds(ids)))
      throw usedByAnother(s"batch $batch is committed")
    hasCommit = true
    passed("committed")
    Utils.tryLogNonFatalError(Twin.removeAll(checkpoint))
    passed("done")
    batch
  }

  private def place(batch: Long, isMine: () => Unit): Unit = {
    twin.place(
      batch,
      () => {
        passed("tables")
        isMine()
      }
    )
    passed("placed")
  }

  /** Whether the checkpoint has gone over, whatever has failed since. A commit that failed may be there all the same. */
  def isComplete(batch: Long): Boolean =
    hasCommit || hasOffsets && !isAnothers && mark.isOf(twin.root) && checkpoint.lastCommitted.contains(batch)

  /** Who starts a query on the checkpoint undoes what it finds, and goes on from there. */
  private def requireMine(batch: Long): Unit =
    if (!mark.isOf(twin.root)) throw usedByAnother(s"its take-over as batch $batch was undone")

  private def usedByAnother(why: String) = {
    isAnothers = true
    new IllegalStateException(s"$why: another run uses ${checkpoint.root}")
  }
}

private[laneshift] object TakeOver extends Logging {

  /** Tests look at the checkpoint behind each step, or end it there. */
  @volatile var passed: String => Unit = _ => ()

  /** Tests say between which batches it is. */
  @volatile var held = false

  /** Says beside the twin which batch the take-over is, so that only that one may be undone, and whose: who does not find its own
    * has been undone.
    */
  private final class Mark(checkpoint: Checkpoint) {
    private val path = new Path(Twin.folder(checkpoint), "taking-over")

    def write(batch: Long, twin: Path): Unit =
      Using.resource(checkpoint.fs.create(path, true))(_.write(s"$batch ${twin.getName}".getBytes(UTF_8)))

    def batch(): Option[Long] = words().headOption.flatMap(_.toLongOption)

    def isOf(twin: Path): Boolean = words().lift(1).contains(twin.getName)

    private def words(): Seq[String] =
      try Using.resource(
          checkpoint.fs.open(path)
        )(in => new String(in.readAllBytes(), UTF_8)).trim.split(' ').toSeq
      catch { case _: FileNotFoundException => Nil }
  }

  /** Puts a checkpoint back as it was before a take-over that has not come to its commit. The batch's entry in the offset log,
    * which keeps Spark from starting the query, goes only when nothing else is left of it. A batch of that number that Spark has
    * planned since, without laneshift, stays.
    */
  def undo(checkpoint: Checkpoint): Boolean = {
    val cutShort = begun(checkpoint)
    cutShort.foreach { batch =>
      for (operator <- numbered(checkpoint, checkpoint.stateRoot)) {
        OperatorsMetadata.delete(checkpoint, operator, batch)
        numbered(checkpoint, operator).foreach(deleteVersion(checkpoint, _, batch + 1))
      }
      passed("undone")
      checkpoint.offsetLog.purgeAfter(batch - 1)
      logWarning(s"The take-over of ${checkpoint.root} as batch $batch was cut short, and is undone.")
    }
    Twin.removeAll(checkpoint)
    cutShort.nonEmpty
  }

  /** Whether there is a take-over that has not come to its commit. */
  def isCutShort(checkpoint: Checkpoint): Boolean = begun(checkpoint).nonEmpty

  /** The batch of it. */
  private def begun(checkpoint: Checkpoint): Option[Long] = {
    val committed = checkpoint.lastCommitted.getOrElse(-1L)
    new Mark(checkpoint).batch().filter(batch => batch > committed && isOwn(checkpoint, batch))
  }

  /** The take-over's own entry in the offset log is that of the batch before, but for the number of partitions. */
  private def isOwn(checkpoint: Checkpoint, batch: Long): Boolean =
    checkpoint.offsetLog.get(batch).forall { offsets =>
      offsets == Checkpoint.withPartitions(checkpoint.offsets(batch - 1), checkpoint.partitions(batch))
    }

  private def numbered(checkpoint: Checkpoint, folder: Path): Seq[Path] =
    if (!checkpoint.fs.exists(folder)) Nil
    else
      checkpoint.fs.listStatus(folder).toSeq
        .filter(s => s.isDirectory && s.getPath.getName.forall(_.isDigit))
        .map(_.getPath)

  /** A partition's stores are its folder, or folders in it. */
  private def deleteVersion(checkpoint: Checkpoint, folder: Path, version: Long): Unit =
    checkpoint.fs.listStatus(folder).foreach { status =>
      val path = status.getPath
      if (!status.isDirectory) {
        if (Twin.renamed(path.getName, version, version).nonEmpty) checkpoint.fs.delete(path, false)
      } else if (!Twin.Tables(path.getName) && !path.getName.startsWith("_"))
        deleteVersion(checkpoint, path, version)
    }

  /** Undoes what a killed take-over has left, before a query starts from there. One look for a folder if there is nothing; nothing
    * is touched while a query of this application runs there, whose take-over it may be. What fails costs nothing: Spark itself
    * refuses to start from what is left.
    */
  def repair(location: String, spark: SparkSession): Unit = spark match {
    case session: ClassicSession =>
      try {
        val folder = Twin.folder(location)
        val runs = session.sharedState.activeStreamingQueries.values().asScala
        val isFree = !runs.exists(_.resolvedCheckpointRoot == location)
        if (isFree && folder.getFileSystem(session.sessionState.newHadoopConf()).exists(folder)) {
          undo(Checkpoint.at(location, session))
          ()
        }
      } catch {
        case error @ (NonFatal(_) | _: LinkageError) =>
          logWarning(s"What a take-over may have left in $location was not looked after.", error)
      }
    case _ => ()
  }
}
