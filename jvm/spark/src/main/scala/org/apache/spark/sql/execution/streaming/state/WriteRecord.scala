package org.apache.spark.sql.execution.streaming.state

import java.io.{
  BufferedInputStream,
  BufferedOutputStream,
  DataInputStream,
  DataOutputStream,
  EOFException,
  File
}
import java.nio.file.Files

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.{SparkEnv, TaskContext}

/** One write to a state store, in the bytes that it has there, without the prefix of its column family.
  *
  * @param value of a range, the key behind its end
  */
private[sql] final case class RecordedWrite(
    kind: Byte,
    family: String,
    key: Array[Byte],
    value: Array[Byte]
)

private[sql] object RecordedWrite {
  val Put: Byte = 1
  val Remove: Byte = 2
  val Merge: Byte = 3
  val RemoveRange: Byte = 4

  private[state] def encode(
      kind: Byte,
      family: String,
      key: Array[Byte],
      value: Array[Byte],
      out: DataOutputStream
  ): Unit = {
    out.writeByte(kind)
    out.writeUTF(family)
    bytes(key, out)
    if (kind != Remove) bytes(value, out)
  }

  private def bytes(of: Array[Byte], out: DataOutputStream): Unit = {
    out.writeInt(of.length)
    out.write(of)
  }

  /** The write whose kind was read from `in`. */
  private[state] def decode(kind: Byte, in: DataInputStream): RecordedWrite = {
    def next(): Array[Byte] = {
      val of = new Array[Byte](in.readInt())
      in.readFully(of)
      of
    }
    val (family, key) = (in.readUTF(), next())
    RecordedWrite(kind, family, key, if (kind == Remove) null else next())
  }
}

/** Keeps the writes of one task to one store, in their order, in a file of the executor until the store is committed: then
  * in a file beside the twin that a rescale builds (docs/rescale.md). The file is where Spark keeps what a task spills
  * (`spark.local.dir`), and goes with the task at the latest.
  */
private[state] final class WriteRecord(target: Path, hadoop: Configuration) {
  private[state] val file: File = SparkEnv.get.blockManager.diskBlockManager.createTempLocalBlock()._2
  private val out =
    new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(file.toPath), 1 << 16))

  def add(kind: Byte, family: String, key: Array[Byte], value: Array[Byte]): Unit =
    RecordedWrite.encode(kind, family, key, value, out)

  /** Whoever reads it knows by its last byte that it is whole. */
  def publish(version: Long, checkpointId: Option[String]): Unit = {
    out.writeByte(WriteRecord.End)
    out.close()
    val fs = target.getFileSystem(hadoop)
    fs.copyFromLocalFile(true, true, new Path(file.toURI), WriteRecord.path(target, version, checkpointId))
  }

  def drop(): Unit =
    try out.close()
    finally {
      file.delete()
      ()
    }
}

private[sql] object WriteRecord {
  private val End: Byte = 0

  /** A task's property: the folder of records, if its query is being rescaled. Stores tell theirs by where they are below
    * the other one.
    */
  val Folder = "laneshift.rescale.records"
  val Stores = "laneshift.rescale.stores"

  private[state] def path(folder: Path, version: Long, checkpointId: Option[String]): Path =
    new Path(folder, version.toString + checkpointId.fold("")("_" + _))

  /** For the store at this place, if this task's writes are wanted. Threads that a body of `foreachBatch` has made during a rescale
    * keep its properties for good: those of one that is over have no folder any more.
    */
  private[state] def wanted(store: String, hadoop: Configuration): Option[WriteRecord] = for {
    task <- Option(TaskContext.get())
    folder <- Option(task.getLocalProperty(Folder))
    stores <- Option(task.getLocalProperty(Stores))
    if store.startsWith(stores)
    records = new Path(folder)
    if records.getFileSystem(hadoop).exists(records)
  } yield {
    val record = new WriteRecord(new Path(folder + store.stripPrefix(stores)), hadoop)
    task.addTaskCompletionListener[Unit](_ => record.drop())
    record
  }

  /** Gives each write of a store's commit to `each`, in order. False if there is no such record. */
  def read(folder: Path, version: Long, checkpointId: Option[String], hadoop: Configuration)(
      each: RecordedWrite => Unit
  ): Boolean = {
    val file = path(folder, version, checkpointId)
    val fs = file.getFileSystem(hadoop)
    fs.exists(file) && {
      Using.resource(new DataInputStream(new BufferedInputStream(fs.open(file), 1 << 16))) { in =>
        var kind = in.readByte()
        while (kind != End) {
          each(RecordedWrite.decode(kind, in))
          kind =
            try in.readByte()
            catch { case _: EOFException => throw new java.io.IOException(s"$file has no end") }
        }
      }
      true
    }
  }
}
