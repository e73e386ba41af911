package org.apache.spark.sql.laneshift.rescale

import org.apache.hadoop.fs.{FileUtil, Path}

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.{StreamingCheckpointConstants, StreamingQueryCheckpointMetadata}
import org.apache.spark.sql.execution.streaming.state.StateRewriter
import org.apache.spark.sql.functions._

/** The stores of the new number of partitions while they are built: a checkpoint of its own, with the state as of one batch,
  * in the folder `laneshift-rescale` of the checkpoint that it is to go over into. Spark reads it as any other, and nobody looks
  * into it who does not know of it.
  *
  * @param session for the jobs that read and write state
  */
private[rescale] final class Twin(of: Checkpoint, session: SparkSession) {
  val root = new Path(of.root, Twin.Folder)
  private val stateRoot = new Path(root, StreamingCheckpointConstants.DIR_NAME_STATE)

  // Each build is a checkpoint anew: the logs of the one before know files that are gone.
  private var logs: StreamingQueryCheckpointMetadata = _

  /** Reads the state of a committed batch and writes it in `partitions`, as of the same batch. */
  def build(batch: Long, partitions: Int): Twin.Ids = {
    remove()
    of.operators(batch).foreach(operator => copySchemas(of.operatorFolder(operator)))
    logs = new StreamingQueryCheckpointMetadata(session, root.toString)
    logs.offsetLog.add(batch, Checkpoint.withPartitions(of.offsets(batch), partitions))
    val before = of.partitions(batch)
    val byKey = (rows: DataFrame) => Twin.placed(rows, before).repartition(partitions, col("partition_key"))
    val ids = new StateRewriter(
      session,
      readBatchId = batch,
      writeBatchId = batch,
      root.toString,
      of.hadoop,
      readResolvedCheckpointLocation = Some(of.root),
      transformFunc = Some(byKey),
      writeCheckpointMetadata = Some(logs)
    ).run()
    OperatorsMetadata.writeChanged(of, stateRoot, batch, partitions)
    logs.commitLog.add(batch, of.commit(batch).withStateUniqueIds(ids))
    ids
  }

  /** Spark looks for schemas where it writes. Newer ones are named by their whole path, and stay where they are. */
  private def copySchemas(operator: Path): Unit = {
    val first = new Path(operator, "0")
    val stores =
      if (of.fs.exists(first)) of.fs.listStatus(first).toSeq.filter(_.isDirectory).map(_.getPath) else Nil
    (operator +: first +: stores).foreach { folder =>
      val from = new Path(folder, Twin.Metadata)
      if (of.fs.exists(from)) {
        val to = new Path(root, relative(folder, new Path(of.root)))
        of.fs.mkdirs(to)
        FileUtil.copy(of.fs, from, of.fs, new Path(to, Twin.Metadata), false, of.hadoop)
      }
    }
  }

  /** Lets the checkpoint have the stores of batch `built` as those of batch `batch`, by renaming their files. A store's
    * snapshot comes last: it names the others.
    */
  def place(built: Long, batch: Long): Unit = {
    val (tables, snapshots) = files(stateRoot).partition(f => Twin.Tables(f.getParent.getName))
    tables.foreach(f => rename(f, new Path(of.stateRoot, relative(f, stateRoot))))
    for (f <- snapshots; name <- Twin.renamed(f.getName, built + 1, batch + 1))
      rename(f, new Path(new Path(of.stateRoot, relative(f.getParent, stateRoot)), name))
  }

  private def files(folder: Path): Seq[Path] =
    of.fs.listStatus(folder).toSeq.flatMap { status =>
      val path = status.getPath
      if (!status.isDirectory) Seq(path)
      else if (path.getName.startsWith("_")) Nil
      else files(path)
    }

  private def rename(from: Path, to: Path): Unit = {
    of.fs.mkdirs(to.getParent)
    if (of.fs.exists(to)) of.fs.delete(to, false)
    if (!of.fs.rename(from, to)) throw new java.io.IOException(s"$from could not be renamed to $to")
  }

  private def relative(path: Path, to: Path): String =
    of.fs.makeQualified(to).toUri.relativize(of.fs.makeQualified(path).toUri).getPath

  def remove(): Unit = {
    of.fs.delete(root, true)
    ()
  }
}

private[rescale] object Twin {

  /** Checkpoint ids of stores by operator and partition, if the checkpoint has such. */
  type Ids = Option[Map[Long, Array[Array[String]]]]

  val Folder = "laneshift-rescale"
  private val Metadata = "_metadata"

  /** Folders of a store's files that its snapshots name. */
  val Tables: Set[String] = Set("SSTs", "logs")

  /** Only rows that are where their key says: where a key is kept in other bytes than it was shuffled by (a wider type), the
    * rewritten rows would be where the query does not look for them.
    */
  private def placed(rows: DataFrame, partitions: Int): DataFrame = {
    val here = pmod(hash(col("partition_key")), lit(partitions)) === spark_partition_id()
    val why = lit("state is kept by another key than it was shuffled by: it cannot be rewritten for other partitions")
    rows.where(assert_true(here, why).isNull)
  }

  /** `7.zip` and `7_id.zip` under another version, with the files of their checksums. */
  def renamed(name: String, version: Long, to: Long): Option[String] = {
    val rest = name.stripPrefix(version.toString)
    Option.when(rest != name && (rest.startsWith(".") || rest.startsWith("_")))(s"$to$rest")
  }
}
