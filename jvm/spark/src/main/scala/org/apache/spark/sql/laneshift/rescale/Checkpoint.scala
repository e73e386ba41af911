package org.apache.spark.sql.laneshift.rescale

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.SparkContext
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.v2.state.metadata.StateMetadataPartitionReader
import org.apache.spark.sql.execution.streaming.checkpointing.{
  CommitLog,
  CommitMetadataBase,
  OffsetMap,
  OffsetSeq,
  OffsetSeqBase,
  OffsetSeqLog,
  OffsetSeqMetadata,
  OffsetSeqMetadataBase,
  OffsetSeqMetadataV2
}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils.{
  SYMMETRIC_HASH_JOIN_EXEC_OP_NAME,
  TRANSFORM_WITH_STATE_OP_NAMES
}
import org.apache.spark.sql.execution.streaming.runtime.StreamingCheckpointConstants
import org.apache.spark.sql.execution.streaming.state.{
  OfflineStateRepartitionUtils,
  OperatorStateMetadata,
  RocksDBStateStoreProvider,
  StoreShape
}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.SerializableConfiguration

/** A checkpoint's folder: its two logs, its operators and where their stores are. In Spark's package because operators'
  * metadata is private to it.
  *
  * @param offsetLog, commitLog of the query that runs, or of nobody
  */
private[laneshift] final class Checkpoint(
    val root: String,
    val hadoop: Configuration,
    val offsetLog: OffsetSeqLog,
    val commitLog: CommitLog
) {
  val fs: FileSystem = new Path(root).getFileSystem(hadoop)
  val stateRoot = new Path(root, StreamingCheckpointConstants.DIR_NAME_STATE)

  def lastStarted: Option[Long] = offsetLog.getLatestBatchId()
  def lastCommitted: Option[Long] = commitLog.getLatestBatchId()

  def offsets(batch: Long): OffsetSeqBase =
    offsetLog.get(batch).getOrElse(throw Checkpoint.missing(root, s"offsets/$batch"))

  def commit(batch: Long): CommitMetadataBase =
    commitLog.get(batch).getOrElse(throw Checkpoint.missing(root, s"commits/$batch"))

  def partitions(batch: Long): Int =
    offsets(batch).metadataOpt.flatMap(OfflineStateRepartitionUtils.getShufflePartitions).getOrElse(
      throw new NotRescalable.Unfit(s"its batch $batch does not say how many it has")
    )

  /** As of a committed batch; none for a query without state. */
  def operators(batch: Long): Seq[OperatorStateMetadata] =
    if (!fs.exists(stateRoot)) Nil
    else
      new StateMetadataPartitionReader(
        root,
        new SerializableConfiguration(hadoop),
        batch
      ).allOperatorStateMetadata.toSeq

  /** The stores that each partition has, as of a committed batch. */
  def stores(batch: Long, context: SparkContext): Seq[StoreShape] =
    operators(batch).flatMap(StoreShape.of(stateRoot, _, joinFormat(batch), context, hadoop))

  def operatorFolder(operator: OperatorStateMetadata): Path =
    new Path(stateRoot, operator.operatorInfo.operatorId.toString)

  /** Refuses what Spark cannot read and write as bytes, or what has nothing to rescale. */
  def requireFit(batch: Long, context: SparkContext): Unit = {
    conf(
      batch,
      SQLConf.STATE_STORE_PROVIDER_CLASS.key
    ).filter(_ != classOf[RocksDBStateStoreProvider].getName).foreach { other =>
      throw new NotRescalable.Unfit(
        s"its state is kept by $other, and only that of Spark's RocksDB provider can be rewritten"
      )
    }
    val found = operators(batch)
    if (found.isEmpty) throw new NotRescalable.Unfit("it has no stateful operator")
    found.map(_.operatorInfo.operatorName).find(Checkpoint.Unsupported).foreach(refuseOneKey)
    val joins = found.exists(_.operatorInfo.operatorName == SYMMETRIC_HASH_JOIN_EXEC_OP_NAME)
    Checkpoint.unfit(key => conf(batch, key).orElse(Checkpoint.Unsaid.get(key)), joins)
      .foreach(why => throw new NotRescalable.Unfit(why))
    if (commit(batch).version > CommitLog.VERSION_2)
      throw new NotRescalable.Unfit(
        "its commit log has version 3 (sink evolution), which Spark itself cannot rewrite"
      )
    stores(batch, context).find(!_.isKeyed).foreach(store => refuseOneKey(store.operatorName))
  }

  /** All its state is in one partition, which no hash of a key says. */
  private def refuseOneKey(operator: String): Nothing =
    throw new NotRescalable.Unfit(
      s"its operator $operator has one key, which no number of partitions divides"
    )

  /** Refuses what may be kept by another key than its rows are shuffled by (transformWithState's is the user's object), where
    * nothing would show it: in one partition each row is where any key says.
    */
  def requireKeysShown(batch: Long): Unit = if (partitions(batch) == 1)
    operators(batch).map(_.operatorInfo.operatorName).find(TRANSFORM_WITH_STATE_OP_NAMES.contains).foreach {
      name =>
        throw new NotRescalable.Unfit(
          s"its one partition does not show whether the operator $name has the keys that its rows are shuffled by: let the query " +
            "run, and rescale it then"
        )
    }

  def joinFormat(batch: Long): Option[Int] =
    conf(batch, SQLConf.STREAMING_JOIN_STATE_FORMAT_VERSION.key).map(_.toInt)

  /** What a batch was written with. */
  private def conf(batch: Long, key: String): Option[String] =
    offsets(batch).metadataOpt.flatMap(_.conf.get(key))

  /** Bytes of state in the folder, of all versions that it keeps. */
  def stateBytes: Long = fs.getContentSummary(stateRoot).getLength

  /** The new stores are written beside the old ones. */
  def requireRoom(): Unit = {
    val (needed, free) = (stateBytes, fs.getStatus(stateRoot).getRemaining)
    if (needed > free)
      throw new NotRescalable.Unfit(s"its state has up to $needed bytes, and only $free are free where it is")
  }
}

private[laneshift] object Checkpoint {

  /** What Spark has no rule for: the one key of a limit is in one partition, whatever their number. */
  private val Unsupported = Set("globalLimit")

  /** What of a query's settings keeps it from another number of partitions: its plan says so before it is asked for. */
  def unfit(setting: String => Option[String], joins: Boolean): Option[String] = {
    val format = setting(SQLConf.STREAMING_JOIN_STATE_FORMAT_VERSION.key).map(_.toInt)
    if (joins && format.exists(_ > NewestJoin))
      Some(s"its join keeps state in format ${format.get}, whose keys Spark cannot tell partitions by")
    else if (setting(SQLConf.STATE_STORE_ROW_CHECKSUM_ENABLED.key).contains("true"))
      Some("its rows of state have checksums, of which the parts of a list cannot be told")
    else if (setting(SQLConf.STATEFUL_OPERATOR_USE_STRICT_DISTRIBUTION.key).contains("false"))
      Some("its operators may be partitioned by a part of their keys, as before Spark 3.3")
    else None
  }

  /** What a checkpoint has that does not say, for it is older than the setting. */
  private val Unsaid = Map(SQLConf.STATEFUL_OPERATOR_USE_STRICT_DISTRIBUTION.key -> "false")

  /** Spark 4.3's rules know the newest format, but not where it has the key. */
  private val NewestJoin = 3

  private def missing(root: String, what: String) = new NotRescalable.Unfit(s"$root has no $what")

  /** Of a query that does not run. */
  def at(location: String, spark: SparkSession): Checkpoint = {
    val hadoop = spark.sessionState.newHadoopConf()
    val fs = new Path(location).getFileSystem(hadoop)
    val root = fs.makeQualified(new Path(location)).toString
    def log(name: String): String = {
      val path = new Path(root, name)
      if (!fs.exists(path)) throw new NotRescalable.Unfit(s"$root is no checkpoint: it has no folder $name")
      path.toString
    }
    new Checkpoint(
      root,
      hadoop,
      new OffsetSeqLog(spark, log(StreamingCheckpointConstants.DIR_NAME_OFFSETS)),
      new CommitLog(spark, log(StreamingCheckpointConstants.DIR_NAME_COMMITS))
    )
  }

  def withPartitions(metadata: OffsetSeqMetadataBase, partitions: Int): OffsetSeqMetadataBase = {
    val conf = metadata.conf + (SQLConf.SHUFFLE_PARTITIONS.key -> partitions.toString)
    metadata match {
      case v1: OffsetSeqMetadata => v1.copy(conf = conf)
      case v2: OffsetSeqMetadataV2 => v2.copy(conf = conf)
      case other => throw unknown(other.version)
    }
  }

  def withPartitions(offsets: OffsetSeqBase, partitions: Int): OffsetSeqBase = offsets match {
    case v1: OffsetSeq =>
      v1.copy(metadataOpt =
        v1.metadataOpt.map(withPartitions(_, partitions).asInstanceOf[OffsetSeqMetadata])
      )
    case v2: OffsetMap =>
      v2.copy(metadata = withPartitions(v2.metadata, partitions).asInstanceOf[OffsetSeqMetadataV2])
    case other => throw unknown(other.version)
  }

  private def unknown(version: Int) =
    new NotRescalable.Unfit(s"its offset log has version $version, which laneshift does not know")
}
