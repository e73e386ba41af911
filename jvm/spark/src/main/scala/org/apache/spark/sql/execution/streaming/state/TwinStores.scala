package org.apache.spark.sql.execution.streaming.state

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.util.UUID

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.InternalRow

/** The stores that a rescale builds are its own: nobody's maintenance deletes of them what is not used any more, or looks for
  * them where they have gone from.
  */
private[sql] final class TwinStateStoreProvider extends RocksDBStateStoreProvider {
  override def doMaintenance(): Unit = ()
  override def doSnapshotMaintenance(): Unit = ()
  override def doCleanupMaintenance(): Unit = ()
}

/** Recorded writes of one store on their way from an old partition to a new one: the n-th piece of their origin. */
private[sql] final case class Piece(shape: Int, origin: Int, number: Int, bytes: Array[Byte])

/** One batch's commits of all old stores: the version, and the checkpoint ids if there are such. */
private[sql] final case class RecordedBatch(version: Long, ids: Option[Map[Long, Array[Array[String]]]])

/** What tasks do for a rescale: docs/rescale.md.
  *
  * @param stateRoot of the twin
  * @param from how many partitions there are, `to` how many there will be
  */
private[sql] final case class TwinStores(
    shapes: Seq[StoreShape],
    stateRoot: String,
    from: Int,
    to: Int,
    runId: UUID,
    storeConf: StateStoreConf
) {
  import TwinStores._

  /** Writes the rows of one new partition as the whole of its store, as of batch `batch`. */
  def write(
      shape: Int,
      partition: Int,
      batch: Long,
      rows: Iterator[InternalRow],
      hadoop: Configuration
  ): Option[String] = {
    val of = shapes(shape)
    val writer = new StatePartitionAllColumnFamiliesWriter(
      storeConf,
      hadoop,
      partition,
      new Path(stateRoot).getParent.toString,
      of.operatorId,
      of.storeName,
      batch,
      of.written,
      of.schemas
    )
    writer.write(rows).stateStoreCkptId
  }

  /** What the stores of one old partition have committed in some batches, cut by the new partitions that it goes to. */
  def routed(
      partition: Int,
      batches: Seq[RecordedBatch],
      records: String,
      hadoop: Configuration
  ): Iterator[(Int, Piece)] = {
    val numbers = Array.fill(shapes.size, to)(0)
    for {
      (shape, s) <- shapes.iterator.zipWithIndex
      router = new StoreRouter(shape, storeConf, to)
      batch <- batches.iterator
      (target, piece) <- {
        val ready = ArrayBuffer.empty[(Int, Piece)]
        val open = new mutable.HashMap[Int, ByteArrayOutputStream]
        def close(target: Int): Unit = open.remove(target).foreach { bytes =>
          ready += target -> Piece(s, partition, numbers(s)(target), bytes.toByteArray)
          numbers(s)(target) += 1
        }
        def add(target: Int, write: RecordedWrite): Unit = {
          val bytes = open.getOrElseUpdate(target, new ByteArrayOutputStream)
          encode(write, new DataOutputStream(bytes))
          if (bytes.size >= PieceBytes) close(target)
        }
        val folder = shape.folder(new Path(records), partition)
        val id = shape.checkpointId(batch.ids, partition)
        val found = WriteRecord.read(folder, batch.version, id, hadoop) { write =>
          if (write.kind == RecordedWrite.RemoveRange) (0 until to).foreach(add(_, write))
          else add(router.partitionOf(write.family, write.key), write)
        }
        if (!found) throw new IllegalStateException(
          s"what partition $partition of operator ${shape.operatorId} (${shape.storeName}) wrote as version ${batch.version} " +
            "was not recorded: its stores are not laneshift's"
        )
        open.keys.toSeq.foreach(close)
        ready
      }
    } yield target -> piece
  }

  /** Brings recorded writes into the stores of one new partition, and commits each; gives their checkpoint ids. */
  def apply(
      partition: Int,
      pieces: Iterator[Piece],
      version: Long,
      ids: Seq[Option[String]],
      hadoop: Configuration
  ): Seq[Option[String]] = {
    val stores = shapes.zip(ids).map { case (shape, id) => open(shape, partition, version, id, hadoop) }
    val routers = shapes.map(new StoreRouter(_, storeConf, from))
    val next = new mutable.HashMap[(Int, Int), Int]
    pieces.foreach { piece =>
      val due = next.getOrElse((piece.shape, piece.origin), 0)
      if (piece.number != due)
        throw new IllegalStateException(s"writes of partition ${piece.origin} came out of order: ${piece.number}, not $due")
      next((piece.shape, piece.origin)) = due + 1
      val db = stores(piece.shape).dbInstance()
      decode(piece.bytes)(write(db, shapes(piece.shape), routers(piece.shape), piece.origin, _))
    }
    stores.map { store =>
      store.commit()
      store.getStateStoreCheckpointInfo().stateStoreCkptId
    }
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
      StateStoreProviderId(StateStoreId(stateRoot, shape.operatorId, partition, shape.storeName), runId),
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
        try rows.map(_.key.clone()).filter(router.partitionOf(write.family, _) == origin).toArray
            .foreach(db.remove(_, write.family))
        finally rows.closeIfNeeded()
      case other => throw new IllegalStateException(s"a write of kind $other")
    }
  }
}

private[sql] object TwinStores {
  private val PieceBytes = 1 << 16

  private def encode(write: RecordedWrite, out: DataOutputStream): Unit = {
    out.writeByte(write.kind)
    out.writeUTF(write.family)
    out.writeInt(write.key.length)
    out.write(write.key)
    if (write.kind != RecordedWrite.Remove) {
      out.writeInt(write.value.length)
      out.write(write.value)
    }
  }

  private def decode(bytes: Array[Byte])(each: RecordedWrite => Unit): Unit = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    def next(): Array[Byte] = {
      val of = new Array[Byte](in.readInt())
      in.readFully(of)
      of
    }
    while (in.available > 0) {
      val (kind, family) = (in.readByte(), in.readUTF())
      val key = next()
      each(RecordedWrite(kind, family, key, if (kind == RecordedWrite.Remove) null else next()))
    }
  }
}
