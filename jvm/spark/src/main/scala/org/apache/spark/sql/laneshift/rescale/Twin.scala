package org.apache.spark.sql.laneshift.rescale

import java.io.IOException
import java.util.UUID

import scala.collection.mutable
import scala.concurrent.duration.Duration
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileUtil, Path}

import org.apache.spark.{Partitioner, ShuffleDependency, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.Logging
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.v2.state.StateSourceOptions
import org.apache.spark.sql.execution.streaming.runtime.{
  StreamingCheckpointConstants,
  StreamingQueryCheckpointMetadata
}
import org.apache.spark.sql.execution.streaming.state.{Piece, RecordedBatch, StateStoreConf, TwinStores}
import org.apache.spark.util.{SerializableConfiguration, ThreadUtils, Utils}

/** The stores of the new number of partitions while they are built: a checkpoint of its own, with the state as of one batch,
  * in a folder of its own in the folder `laneshift-rescale` of the checkpoint that it is to go over into. Spark reads it as any
  * other, and nobody looks into it who does not know of it.
  *
  * @param session for the jobs that read and write state, with the configuration of the checkpoint's last batch
  * @param budget of the jobs that write all of it
  */
private[rescale] final class Twin(of: Checkpoint, session: SparkSession, to: Int, budget: RescaleBudget)
    extends Logging {
  private val runId = UUID.randomUUID()

  /** No other rescale of the checkpoint has the same: what is left of one goes while the next is built. */
  val root = new Path(Twin.folder(of), runId.toString)
  val stateRoot = new Path(root, StreamingCheckpointConstants.DIR_NAME_STATE)

  /** Where tasks of the query record what they write while the twin is built. */
  val records = new Path(root, "records")
  private val context = session.sparkContext
  private lazy val hadoop = SerializableConfiguration.broadcast(context, of.hadoop)

  private var stores: TwinStores = _
  private var built = 0L
  private var reached = 0L
  // The version that each old store, by shape and partition, was read at.
  private val readAt = mutable.Map.empty[(Int, Int), Long]
  private var ids = Map.empty[(Int, Int), Option[String]]
  @volatile private var done = 0

  /** The batch of the query that all its stores have the state of, at least. */
  def state: Long = reached

  /** Stores that are written, and how many there will be. */
  def progress: (Int, Int) = (done, Option(stores).fold(0)(_.shapes.size * to))

  /** Checkpoint ids of the new stores by operator and partition, if the checkpoint has such. */
  def checkpointIds: Twin.Ids = Option.when(ids.values.exists(_.nonEmpty)) {
    stores.shapes.zipWithIndex.groupBy(_._1.operatorId).map { case (operator, shapes) =>
      operator -> Array.tabulate(to)(p => shapes.map { case (_, s) => ids((s, p)).get }.toArray)
    }
  }

  /** Reads all state and writes it in `to` partitions: each old store as of the batch that is the newest when its turn comes, for
    * Spark keeps few old ones. What later batches have written is to be caught up with.
    *
    * @param staysOpen whether there are later batches
    */
  def build(committed: Commits, staysOpen: Boolean): Unit = {
    val batch = committed.newest
    val from = of.partitions(batch)
    val shapes = of.stores(batch, context)
    stores = TwinStores(
      shapes,
      of.stateRoot.toString,
      stateRoot.toString,
      from,
      to,
      runId,
      StateStoreConf(session.sessionState.conf)
    )
    done = 0
    built = batch
    ids = shapes.indices.flatMap(s =>
      write(s, committed, staysOpen).zipWithIndex.map { case (id, p) => (s, p) -> id }
    ).toMap
    reached = readAt.values.min - 1
  }

  private def write(shape: Int, committed: Commits, staysOpen: Boolean): Seq[Option[String]] = {
    val byTask = new Twin.ToTask(to, p => p)
    val read = (0 until stores.from).grouped(budget.cores).map(readStores(shape, _, byTask, committed)).toSeq
    val pieces = placed(context.union(read))
    val job = Twin.filling(stores, hadoop, budget, shape, built, staysOpen)
    (0 until to).grouped(budget.cores).flatMap { group =>
      val made = context.runJob(pieces, job, group)
      done += group.size
      made
    }.toSeq
  }

  /** Reads some old stores, a task each: no task has a second one open. Where Spark has deleted a store's batch before it was open,
    * there is a newer one.
    */
  private def readStores(
      shape: Int,
      partitions: Seq[Int],
      byTask: Partitioner,
      committed: Commits
  ): RDD[(Int, Piece)] = {
    def read(attempts: Int): RDD[(Int, Piece)] = {
      TakeOver.passed("reading")
      val at = committed.last
      val old = context.parallelize(partitions, partitions.size)
      val pieces = Twin.contents(old, stores, hadoop, shape, at).partitionBy(byTask)
      val shuffle = pieces.dependencies.head.asInstanceOf[ShuffleDependency[Int, Piece, Piece]]
      try {
        val reading = context.submitMapStage(shuffle)
        ThreadUtils.awaitReady(reading, Duration.Inf)
        reading.value.foreach(_.get)
        partitions.foreach(p => readAt((shape, p)) = at.version)
        pieces
      } catch {
        case e if NonFatal(e) && attempts > 1 && committed.newest >= at.version =>
          logInfo(s"State of batch ${at.version - 1} is there no more: ${e.getMessage}")
          read(attempts - 1)
      }
    }
    read(Twin.Attempts)
  }

  /** Pieces go where their stores are open. */
  private def placed(pieces: RDD[(Int, Piece)]): RDD[(Int, Piece)] =
    new PlacedRDD(pieces, stores.place(_, coordinator).toSeq)

  /** Lets the query's run have the new stores' tables where they are. */
  def passOn(run: UUID): Unit = stores.passOn(run, coordinator)

  /** Lets the query's executors close the stores of partitions that there are no more, of `from`. */
  def dropOld(run: UUID, from: Int): Unit = stores.dropOld(run, from, coordinator)

  /** Brings the recorded writes of the newest batches into the stores.
    *
    * @param slots so many tasks there may be at a time
    * @param hurried whether the query waits for it
    */
  def catchUp(committed: Commits, slots: Int = budget.cores, hurried: Boolean = false): Unit = {
    val batches = committed.after(reached)
    if (batches.nonEmpty) {
      val groups = placedGroups((to + slots - 1) / slots)
      val found = Twin.routed(
        context.parallelize(0 until stores.from, stores.from),
        stores,
        hadoop,
        batches,
        readAt.toMap,
        records.toString,
        slots,
        groups.map(_._2)
      )
      val pieces = new PlacedRDD(found, groups(_)._1.toSeq)
      val atOnce = if (hurried) Twin.CommitsAtOnce else 1
      val applied = Twin.applied(pieces, stores, hadoop, groups.map(_._2), built + 1, ids, atOnce)
      val tasks = groups.indices.grouped(if (hurried) groups.size else slots)
      ids = tasks.flatMap(context.runJob(applied, Twin.only, _)).flatten.toMap
      built += 1
      reached = batches.last.version - 1
      committed.forget(reached)
    }
  }

  /** New partitions for as many tasks as are needed, `size` in each at most: those of a task are where one executor has them open. */
  private def placedGroups(size: Int): IndexedSeq[(Option[String], Seq[Int])] =
    (0 until to).groupBy(stores.place(_, coordinator)).toIndexedSeq.flatMap { case (place, partitions) =>
      partitions.grouped(size).map(place -> _)
    }

  /** Makes of the twin a checkpoint that Spark's data source reads, as of the batch that it was built for. */
  def seal(): Unit = {
    val logs = new StreamingQueryCheckpointMetadata(session, root.toString)
    of.operators(reached).foreach(operator => copySchemas(of.operatorFolder(operator)))
    logs.offsetLog.add(built, Checkpoint.withPartitions(of.offsets(reached), to))
    OperatorsMetadata.writeChanged(of, stateRoot, built, to)
    logs.commitLog.add(built, of.commit(reached).withStateUniqueIds(checkpointIds))
  }

  /** Spark looks for schemas where it reads. Newer ones are named by their whole path, and stay where they are. */
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

  /** Lets the checkpoint have the newest stores as those of batch `batch`, by renaming their files. A store's snapshot comes
    * last: it names the others. Until then Spark, which looks after the old stores meanwhile, takes a table that is older than
    * all of theirs for one that nobody needs, so each is as new as its place.
    *
    * @param isMine throws if the checkpoint has been given to another since
    */
  def place(batch: Long, isMine: () => Unit): Unit = {
    val (tables, snapshots) = files(stateRoot).partition(f => Twin.Tables(f.getParent.getName))
    tables.foreach { f =>
      touch(f)
      rename(f, new Path(of.stateRoot, relative(f, stateRoot)))
    }
    isMine()
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

  /** A file system that cannot do this makes a new file when it renames one. */
  private def touch(file: Path): Unit =
    try of.fs.setTimes(file, System.currentTimeMillis(), Twin.AsItWas)
    catch { case _: UnsupportedOperationException => () }

  private def rename(from: Path, to: Path): Unit = {
    of.fs.mkdirs(to.getParent)
    if (of.fs.exists(to)) of.fs.delete(to, false)
    if (!of.fs.rename(from, to)) throw new IOException(s"$from could not be renamed to $to")
  }

  private def relative(path: Path, to: Path): String =
    of.fs.makeQualified(to).toUri.relativize(of.fs.makeQualified(path).toUri).getPath

  /** Executors let its stores go when they look after theirs the next time. */
  def letGo(): Unit = coordinator.deactivateInstances(runId)

  def isThere: Boolean = of.fs.exists(root)

  def remove(): Unit = {
    Utils.tryLogNonFatalError(letGo())
    of.fs.delete(root, true)
    // Another one's may be in it by now.
    try { of.fs.delete(Twin.folder(of), false); () }
    catch { case _: IOException => () }
  }

  private def coordinator = session.streams.stateStoreCoordinator
}

/** How many tasks a rescale has at a time beside those of the query, and how many bytes of the whole state they write a second
  * together.
  */
private[laneshift] final case class RescaleBudget(cores: Int, bytesPerSecond: Long)

private[laneshift] object RescaleBudget {
  val Full: RescaleBudget = RescaleBudget(1 << 20, Long.MaxValue)
}

private[rescale] object Twin {

  /** Checkpoint ids of stores by operator and partition, if the checkpoint has such. */
  type Ids = Option[Map[Long, Array[Array[String]]]]

  private val Folder = "laneshift-rescale"

  /** Where a checkpoint has its twins, and a take-over its mark. */
  def folder(checkpoint: Checkpoint): Path = folder(checkpoint.root)
  def folder(checkpoint: String): Path = new Path(checkpoint, Folder)

  /** Whatever a rescale has left, which no rescale uses any more. */
  def removeAll(checkpoint: Checkpoint): Unit = {
    checkpoint.fs.delete(folder(checkpoint), true)
    ()
  }

  private val Metadata = "_metadata"

  /** Of a file's times, that of the last access. */
  private val AsItWas = -1L

  /** Folders of a store's files that its snapshots name. */
  val Tables: Set[String] = Set("SSTs", "logs")

  /** All rows of a store, by Spark's data source. */
  def read(
      session: SparkSession,
      at: String,
      batch: Long,
      operator: Long,
      store: String,
      asBytes: Boolean
  ): DataFrame =
    session.read
      .format("statestore")
      .option(StateSourceOptions.PATH, at)
      .option(StateSourceOptions.BATCH_ID, batch)
      .option(StateSourceOptions.OPERATOR_ID, operator)
      .option(StateSourceOptions.STORE_NAME, store)
      .option(StateSourceOptions.INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES, asBytes)
      .load()

  // What goes to executors is made here, where there is no driver's object to go along.

  private def contents(
      old: RDD[Int],
      stores: TwinStores,
      hadoop: Broadcast[SerializableConfiguration],
      shape: Int,
      at: RecordedBatch
  ): RDD[(Int, Piece)] =
    old.flatMap(stores.contents(shape, _, at, new Configuration(hadoop.value.value)))

  private def filling(
      stores: TwinStores,
      hadoop: Broadcast[SerializableConfiguration],
      budget: RescaleBudget,
      shape: Int,
      batch: Long,
      staysOpen: Boolean
  ): (TaskContext, Iterator[(Int, Piece)]) => Option[String] = (task, pieces) =>
    stores.fill(
      shape,
      task.partitionId(),
      batch,
      paced(pieces.map(_._2), budget),
      new Configuration(hadoop.value.value),
      staysOpen
    )

  private def paced(pieces: Iterator[Piece], budget: RescaleBudget): Iterator[Piece] = {
    val perSecond = math.max(1.0, budget.bytesPerSecond.toDouble / budget.cores)
    val began = System.nanoTime()
    var bytes = 0L
    pieces.map { piece =>
      bytes += piece.bytes.length
      val aheadMs = (bytes / perSecond * 1e3 - (System.nanoTime() - began) / 1e6).toLong
      if (aheadMs >= 20) Thread.sleep(aheadMs)
      piece
    }
  }

  private def routed(
      partitions: RDD[Int],
      stores: TwinStores,
      hadoop: Broadcast[SerializableConfiguration],
      batches: Seq[RecordedBatch],
      readAt: Map[(Int, Int), Long],
      records: String,
      cores: Int,
      groups: Seq[Seq[Int]]
  ): RDD[(Int, Piece)] = partitions
    .flatMap(stores.routed(_, batches, readAt, records, new Configuration(hadoop.value.value)))
    .coalesce(cores)
    .partitionBy(new ToTask(groups.size, groups.zipWithIndex.flatMap { case (g, i) => g.map(_ -> i) }.toMap))

  private type Applied = Seq[((Int, Int), Option[String])]
  private val only: Iterator[Applied] => Applied = _.next()

  private def applied(
      pieces: RDD[(Int, Piece)],
      stores: TwinStores,
      hadoop: Broadcast[SerializableConfiguration],
      groups: IndexedSeq[Seq[Int]],
      version: Long,
      ids: Map[(Int, Int), Option[String]],
      atOnce: Int
  ): RDD[Applied] =
    pieces.mapPartitionsWithIndex { (task, found) =>
      val own = groups(task).map(p => p -> stores.shapes.indices.map(s => ids((s, p)))).toMap
      Iterator(stores(own, found, version, new Configuration(hadoop.value.value), atOnce))
    }

  /** Old stores are tried to be read so often. */
  private val Attempts = 4

  /** Commits of a task that go on at the same time: most of one is waiting for files. */
  private val CommitsAtOnce = 8

  /** Sends what goes to a new partition to the task that has it. */
  private final class ToTask(override val numPartitions: Int, of: Int => Int) extends Partitioner {
    override def getPartition(key: Any): Int = of(key.asInstanceOf[Int])
  }

  /** `7.zip` and `7_id.zip` under another version, with the files of their checksums. */
  def renamed(name: String, version: Long, to: Long): Option[String] = {
    val rest = name.stripPrefix(version.toString)
    Option.when(rest != name && (rest.startsWith(".") || rest.startsWith("_")))(s"$to$rest")
  }
}
