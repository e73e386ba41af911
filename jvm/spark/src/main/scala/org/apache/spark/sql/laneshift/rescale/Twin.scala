package org.apache.spark.sql.laneshift.rescale

import java.io.IOException
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileUtil, Path}

import org.apache.spark.{Partitioner, SparkContext}
import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.v2.state.StateSourceOptions
import org.apache.spark.sql.execution.streaming.runtime.{
  StreamingCheckpointConstants,
  StreamingQueryCheckpointMetadata
}
import org.apache.spark.sql.execution.streaming.state.{
  Piece,
  RecordedBatch,
  StateStoreConf,
  StoreShape,
  TwinStores
}
import org.apache.spark.util.{SerializableConfiguration, Utils}

import laneshift.testing.{Fault, Faults}

/** The stores of the new number of partitions while they are built: a checkpoint of its own, with the state as of one batch,
  * in a folder of its own in the folder `laneshift-rescale` of the checkpoint that it is to go over into. Spark reads it as any
  * other, and nobody looks into it who does not know of it.
  *
  * @param session for the jobs that read and write state, with the configuration of the checkpoint's last batch
  * @param budget of the jobs that write all of it
  */
private[rescale] final class Twin(of: Checkpoint, session: SparkSession, to: Int, budget: RescaleBudget) {
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
  private var ids = Map.empty[(Int, Int), Option[String]]
  @volatile private var done = 0

  /** The batch as of which the twin's newest stores count themselves, and the one of the query that they have the state of. */
  def newest: Long = built
  def state: Long = reached

  /** Stores that are written, and how many there will be. */
  def progress: (Int, Int) = (done, Option(stores).fold(0)(_.shapes.size * to))

  /** Checkpoint ids of the new stores by operator and partition, if the checkpoint has such. */
  def checkpointIds: Twin.Ids = Option.when(ids.values.exists(_.nonEmpty)) {
    stores.shapes.zipWithIndex.groupBy(_._1.operatorId).map { case (operator, shapes) =>
      operator -> Array.tabulate(to)(p => shapes.map { case (_, s) => ids((s, p)).get }.toArray)
    }
  }

  /** Reads the state of a committed batch and writes it in `to` partitions, as of the same batch.
    *
    * @param staysOpen whether later batches are to be caught up with
    */
  def build(batch: Long, staysOpen: Boolean): Unit = {
    val from = of.partitions(batch)
    val shapes =
      of.operators(batch).flatMap(StoreShape.of(of.stateRoot, _, of.joinFormat(batch), context, of.hadoop))
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
    ids = shapes.indices.flatMap(s =>
      write(s, batch, from, staysOpen).zipWithIndex.map { case (id, p) => (s, p) -> id }
    ).toMap
    built = batch
    reached = batch
  }

  private def write(
      shape: Int,
      batch: Long,
      from: Int,
      staysOpen: Boolean
  ): Seq[Option[String]] = {
    val old = context.parallelize(0 until from, from)
    val pieces =
      placed(Twin.contents(old, stores, hadoop, budget, shape, batch + 1, of.commit(batch).stateUniqueIds))
    val job = Twin.filling(stores, hadoop, budget, shape, batch, staysOpen)
    (0 until to).grouped(budget.cores).flatMap { group =>
      val made = context.runJob(pieces, job, group)
      done += group.size
      made
    }.toSeq
  }

  /** Pieces go where their stores are open. */
  private def placed(pieces: RDD[(Int, Piece)]): RDD[(Int, Piece)] =
    new PlacedRDD(pieces, stores.place(_, coordinator).toSeq)

  /** Lets the query's run have the new stores' tables where they are. */
  def passOn(run: UUID): Unit = stores.passOn(run, coordinator)

  /** Brings the recorded writes of the batches up to `batch` into the stores.
    *
    * @param hurried whether the query waits for it: all slots are free then; otherwise it has as many tasks at a time as its budget
    *   says
    */
  def catchUp(batch: Long, hurried: Boolean = false): Unit = if (batch > reached) {
    val batches = (reached + 1 to batch).map(b => RecordedBatch(b + 1, of.commit(b).stateUniqueIds))
    val slots = if (hurried) Twin.slots(context) else budget.cores
    val groups = placedGroups((to + slots - 1) / slots)
    val found = Twin.routed(
      context.parallelize(0 until stores.from, stores.from),
      stores,
      hadoop,
      batches,
      records.toString,
      slots,
      groups.map(_._2)
    )
    val pieces = new PlacedRDD(found, groups(_)._1.toSeq)
    if (!Faults.isOn(Fault.RecordedForgotten)) {
      val atOnce = if (hurried) Twin.CommitsAtOnce else 1
      val applied = Twin.applied(pieces, stores, hadoop, groups.map(_._2), built + 1, ids, atOnce)
      val tasks = groups.indices.grouped(if (hurried) groups.size else slots)
      ids = tasks.flatMap(context.runJob(applied, Twin.only, _)).flatten.toMap
      built += 1
    }
    reached = batch
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
    * last: it names the others.
    */
  def place(batch: Long): Unit = {
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
      budget: RescaleBudget,
      shape: Int,
      version: Long,
      ids: Ids
  ): RDD[(Int, Piece)] = old
    .flatMap(stores.contents(shape, _, version, ids, new Configuration(hadoop.value.value)))
    .coalesce(budget.cores)
    .partitionBy(new ToTask(stores.to, p => p))

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
      records: String,
      cores: Int,
      groups: Seq[Seq[Int]]
  ): RDD[(Int, Piece)] = partitions
    .flatMap(stores.routed(_, batches, records, new Configuration(hadoop.value.value)))
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

  /** Commits of a task that go on at the same time: most of one is waiting for files. */
  private val CommitsAtOnce = 8

  private def slots(context: SparkContext): Int =
    math.max(1, context.maxNumConcurrentTasks(context.resourceProfileManager.defaultResourceProfile))

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
