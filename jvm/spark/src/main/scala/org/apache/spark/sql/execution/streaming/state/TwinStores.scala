package org.apache.spark.sql.execution.streaming.state

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.util.UUID

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.TaskContext
import org.apache.spark.scheduler.{ExecutorCacheTaskLocation, TaskLocation}
import org.apache.spark.util.ThreadUtils

/** Recorded writes of one store on their way from an old partition to a new one: the n-th piece of their origin. */
private[sql] final case class Piece(shape: Int, origin: Int, number: Int, bytes: Array[Byte])

/** One batch's commits of all old stores: the version, and the checkpoint ids if there are such. */
private[sql] final case class RecordedBatch(version: Long, ids: Option[Map[Long, Array[Array[String]]]])

/** What tasks do for a rescale: docs/rescale.md.
  *
  * @param oldRoot, stateRoot the folders of state, of the checkpoint and of the twin
  * @param from how many partitions there are, `to` how many there will be
  */
private[sql] final case class TwinStores(
    shapes: Seq[StoreShape],
    oldRoot: String,
    stateRoot: String,
    from: Int,
    to: Int,
    runId: UUID,
    storeConf: StateStoreConf
) {
  import TwinStores._

  /** All rows of one old partition's store, cut by the new partitions that they go to. */
  def contents(
      shape: Int,
      partition: Int,
      at: RecordedBatch,
      hadoop: Configuration
  ): Iterator[(Int, Piece)] = {
    val of = shapes(shape)
    val store = provider(of, oldRoot, partition, hadoop)
    TaskContext.get().addTaskCompletionListener[Unit](_ => store.close())
    val db = store.getReadStore(at.version, of.checkpointId(at.ids, partition))
      .asInstanceOf[RocksDBStateStoreProvider#RocksDBStateStore]
      .dbInstance()
    val router = new StoreRouter(of, storeConf)
    val cut = new Cut(shape, partition)
    val families =
      if (of.hasFamilies) db.allColumnFamilyNames.toSeq else Seq(StateStore.DEFAULT_COL_FAMILY_NAME)
    families.iterator.flatMap(f => db.iterator(f).map(f -> _)).flatMap { case (family, row) =>
      val write = RecordedWrite(RecordedWrite.Put, family, row.key, row.value)
      val into = target(of, partition, router.hashOf(family, row.key))
      cut.add(into, write)
    } ++ Iterator.single(()).flatMap(_ => cut.rest())
  }

  /** The new partition of a key that the old `partition` has. Where a key is kept in other bytes than it was shuffled by (a wider
    * type), its rows would be where the query does not look for them.
    */
  private def target(of: StoreShape, partition: Int, hash: Int): Int =
    if (StoreRouter.partition(hash, from) == partition) StoreRouter.partition(hash, to)
    else
      throw new IllegalStateException(
        s"state of operator ${of.operatorId} is kept by another key than it was shuffled by: it cannot be rewritten for " +
          "other partitions"
      )

  /** Makes one new store, as of batch `batch`, of all that goes to it.
    *
    * @param staysOpen for writes of later batches
    */
  def fill(
      shape: Int,
      partition: Int,
      batch: Long,
      pieces: Iterator[Piece],
      hadoop: Configuration,
      staysOpen: Boolean
  ): Option[String] =
    if (staysOpen) {
      TwinStateStoreProvider.startsEmpty.set(true)
      val store =
        try open(shapes(shape), partition, batch, None, hadoop)
        finally TwinStateStoreProvider.startsEmpty.remove()
      fill(shapes(shape), store, pieces)
    } else {
      val into = provider(shapes(shape), stateRoot, partition, hadoop)
      try {
        val store = into.getStore(batch, None, forceSnapshotOnCommit = false, loadEmpty = true)
        fill(shapes(shape), store.asInstanceOf[RocksDBStateStoreProvider#RocksDBStateStore], pieces)
      } finally into.close()
    }

  private def fill(
      of: StoreShape,
      store: RocksDBStateStoreProvider#RocksDBStateStore,
      pieces: Iterator[Piece]
  ): Option[String] = {
    val db = store.dbInstance()
    if (of.hasFamilies)
      of.families.map(_.colFamilyName).filterNot(db.checkColFamilyExists).foreach { name =>
        db.createColFamilyIfAbsent(name, StoreShape.isInternal(name))
      }
    pieces.foreach(piece => decode(piece.bytes)(w => db.put(w.key, w.value, w.family)))
    store.commit()
    store.getStateStoreCheckpointInfo().stateStoreCkptId
  }

  private def provider(
      of: StoreShape,
      root: String,
      partition: Int,
      hadoop: Configuration
  ): StateStoreProvider = {
    val default = of.default
    StateStoreProvider.createAndInit(
      StateStoreProviderId(StateStoreId(root, of.operatorId, partition, of.storeName), UUID.randomUUID()),
      default.keySchema,
      default.valueSchema,
      default.keyStateEncoderSpec.get,
      of.hasFamilies,
      storeConf,
      hadoop,
      useMultipleValuesPerKey = false,
      of.schemas
    )
  }

  /** What the stores of one old partition have committed in some batches, cut by the new partitions that it goes to.
    *
    * @param readAt the version that each old store, by shape and partition, was read at: it has no need of what was written before
    */
  def routed(
      partition: Int,
      batches: Seq[RecordedBatch],
      readAt: Map[(Int, Int), Long],
      records: String,
      hadoop: Configuration
  ): Iterator[(Int, Piece)] = for {
    (shape, s) <- shapes.iterator.zipWithIndex
    router = new StoreRouter(shape, storeConf)
    cut = new Cut(s, partition)
    later = batches.filter(_.version > readAt((s, partition)))
    piece <- later.iterator.flatMap { batch =>
      val ready = ArrayBuffer.empty[(Int, Piece)]
      val folder = shape.folder(new Path(records), partition)
      val id = shape.checkpointId(batch.ids, partition)
      val found = WriteRecord.read(folder, batch.version, id, hadoop) { write =>
        if (write.kind == RecordedWrite.RemoveRange) (0 until to).foreach(ready ++= cut.add(_, write))
        else ready ++= cut.add(target(shape, partition, router.hashOf(write.family, write.key)), write)
      }
      if (!found) throw new IllegalStateException(
        s"what partition $partition of operator ${shape.operatorId} (${shape.storeName}) wrote as version ${batch.version} " +
          "was not recorded: its stores are not laneshift's, or foreachBatch computes the batch on threads of its own"
      )
      ready
    } ++ Iterator.single(()).flatMap(_ => cut.rest())
  } yield piece

  /** Brings recorded writes into the stores of some new partitions, and commits each; gives their checkpoint ids by shape and
    * partition.
    *
    * @param partitions each with the ids of its stores now
    * @param atOnce how many commits may go on at the same time
    */
  def apply(
      partitions: Map[Int, Seq[Option[String]]],
      pieces: Iterator[(Int, Piece)],
      version: Long,
      hadoop: Configuration,
      atOnce: Int
  ): Seq[((Int, Int), Option[String])] = {
    val stores = for ((partition, ids) <- partitions; (id, s) <- ids.zipWithIndex)
      yield (s, partition) -> open(shapes(s), partition, version, id, hadoop)
    val routers = shapes.map(new StoreRouter(_, storeConf))
    val next = new mutable.HashMap[(Int, Int, Int), Int]
    pieces.foreach { case (partition, piece) =>
      val due = next.getOrElse((partition, piece.shape, piece.origin), 0)
      if (piece.number != due)
        throw new IllegalStateException(
          s"writes of partition ${piece.origin} came out of order: ${piece.number}, not $due"
        )
      next((partition, piece.shape, piece.origin)) = due + 1
      val db = stores((piece.shape, partition)).dbInstance()
      decode(piece.bytes)(write(db, shapes(piece.shape), routers(piece.shape), piece.origin, _))
    }
    def committed(one: ((Int, Int), RocksDBStateStoreProvider#RocksDBStateStore)) = {
      val (at, store) = one
      store.commit()
      at -> store.getStateStoreCheckpointInfo().stateStoreCkptId
    }
    val all = stores.toSeq
    if (atOnce == 1) all.map(committed)
    else ThreadUtils.parmap(all, "laneshift-rescale-commit", math.min(atOnce, all.size))(committed)
  }

  /** As Spark knows a new store while it is open. */
  private def id(shape: StoreShape, partition: Int): StateStoreProviderId =
    StateStoreProviderId(StateStoreId(stateRoot, shape.operatorId, partition, shape.storeName), runId)

  /** The executor that has a new partition's stores open, as a task's preferred location. */
  def place(partition: Int, stores: StateStoreCoordinatorRef): Option[String] =
    shapes.iterator.flatMap(shape => stores.getLocation(id(shape, partition))).nextOption()

  /** Lets the query have each new store where it is open already. */
  def passOn(run: UUID, stores: StateStoreCoordinatorRef): Unit =
    for (shape <- shapes; partition <- 0 until to)
      stores.getLocation(id(shape, partition)).map(TaskLocation(_)).foreach {
        case at: ExecutorCacheTaskLocation =>
          val own = StateStoreId(oldRoot, shape.operatorId, partition, shape.storeName)
          stores.reportActiveInstance(StateStoreProviderId(own, run), at.host, at.executorId, Nil)
        case _ => ()
      }

  /** Lets executors close the query's stores of partitions that there are no more, when they look after theirs the next time: none
    * of them is told to be where one has it open.
    *
    * @param from how many partitions there were
    */
  def dropOld(run: UUID, from: Int, stores: StateStoreCoordinatorRef): Unit =
    for (shape <- shapes; partition <- to until from) {
      val own = StateStoreId(oldRoot, shape.operatorId, partition, shape.storeName)
      stores.reportActiveInstance(StateStoreProviderId(own, run), "nowhere", "none", Nil)
    }

  private def open(
      shape: StoreShape,
      partition: Int,
      version: Long,
      id: Option[String],
      hadoop: Configuration
  ): RocksDBStateStoreProvider#RocksDBStateStore = {
    val default = shape.default
    StateStore.get(
      this.id(shape, partition),
      default.keySchema,
      default.valueSchema,
      default.keyStateEncoderSpec.get,
      version,
      id,
      shape.schemas,
      shape.hasFamilies,
      storeConf,
      hadoop
    ).asInstanceOf[RocksDBStateStoreProvider#RocksDBStateStore]
  }

  private def write(
      db: RocksDB,
      shape: StoreShape,
      router: StoreRouter,
      origin: Int,
      write: RecordedWrite
  ): Unit = {
    if (shape.hasFamilies && !db.checkColFamilyExists(write.family))
      db.createColFamilyIfAbsent(write.family, StoreShape.isInternal(write.family))
    write.kind match {
      case RecordedWrite.Put => db.put(write.key, write.value, write.family)
      case RecordedWrite.Remove => db.remove(write.key, write.family)
      case RecordedWrite.Merge => db.merge(write.key, write.value, write.family)
      case RecordedWrite.RemoveRange =>
        // Its origin had not all that is in the range here.
        val rows = db.rangeScan(Some(write.key), Some(write.value), write.family)
        def isOrigins(key: Array[Byte]) =
          StoreRouter.partition(router.hashOf(write.family, key), from) == origin
        try rows.map(_.key.clone()).filter(isOrigins).toArray.foreach(db.remove(_, write.family))
        finally rows.closeIfNeeded()
      case other => throw new IllegalStateException(s"a write of kind $other")
    }
  }
}

private[sql] object TwinStores {
  private val PieceBytes = 1 << 16

  /** Puts writes of one origin together by where they go. */
  private final class Cut(shape: Int, origin: Int) {
    private val open = new mutable.HashMap[Int, ByteArrayOutputStream]
    private val numbers = new mutable.HashMap[Int, Int]

    def add(target: Int, write: RecordedWrite): Option[(Int, Piece)] = {
      val bytes = open.getOrElseUpdate(target, new ByteArrayOutputStream)
      RecordedWrite.encode(write.kind, write.family, write.key, write.value, new DataOutputStream(bytes))
      Option.when(bytes.size >= PieceBytes)(close(target))
    }

    def rest(): Seq[(Int, Piece)] = open.keys.toSeq.map(close)

    private def close(target: Int): (Int, Piece) = {
      val number = numbers.getOrElse(target, 0)
      numbers(target) = number + 1
      target -> Piece(shape, origin, number, open.remove(target).get.toByteArray)
    }
  }

  private def decode(bytes: Array[Byte])(each: RecordedWrite => Unit): Unit = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    while (in.available > 0) each(RecordedWrite.decode(in.readByte(), in))
  }
}
