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
  private[state] val Family: Byte = 5
  private[state] val End: Byte = 0
}

/** Keeps the writes of one task to one store, in their order, in a file of the executor until the store is committed: then
  * in a file beside the twin that a rescale builds (docs/rescale.md). The file is where Spark keeps what a task spills
  * (`spark.local.dir`), and goes with the task at the latest.
  */
private[state] final class WriteRecord(target: Path, hadoop: Configuration) {
  import RecordedWrite._

  private[state] val file: File = SparkEnv.get.blockManager.diskBlockManager.createTempLocalBlock()._2
  private val out =
    new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(file.toPath), 1 << 16))
  private val families = new java.util.HashMap[String, Int]

  def add(kind: Byte, family: String, key: Array[Byte], value: Array[Byte]): Unit = {
    val number = if (families.containsKey(family)) families.get(family) else newFamily(family)
    out.writeByte(kind)
    out.writeShort(number)
    bytes(key)
    if (kind != Remove) bytes(value)
  }

  private def newFamily(name: String): Int = {
    val number = families.size
    families.put(name, number)
    out.writeByte(Family)
    out.writeShort(number)
    out.writeUTF(name)
    number
  }

  private def bytes(of: Array[Byte]): Unit = {
    out.writeInt(of.length)
    out.write(of)
  }

  /** Whoever reads it knows by its last byte that it is whole. */
  def publish(version: Long, checkpointId: Option[String]): Unit = {
    out.writeByte(End)
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

  /** A task's property: the folder of records, if its query is being rescaled. Stores tell theirs by where they are below
    * the other one.
    */
  val Folder = "laneshift.rescale.records"
  val Stores = "laneshift.rescale.stores"

  private[state] def path(folder: Path, version: Long, checkpointId: Option[String]): Path =
    new Path(folder, version.toString + checkpointId.fold("")("_" + _))

  /** For the store at this place, if this task's writes are wanted. */
  private[state] def wanted(store: String, hadoop: Configuration): Option[WriteRecord] = for {
    task <- Option(TaskContext.get())
    folder <- Option(task.getLocalProperty(Folder))
    stores <- Option(task.getLocalProperty(Stores))
    if store.startsWith(stores)
  } yield {
    val record = new WriteRecord(new Path(folder + store.stripPrefix(stores)), hadoop)
    task.addTaskCompletionListener[Unit](_ => record.drop())
    record
  }

  /** Gives each write of a store's commit to `each`, in order. False if there is no such record. */
  def read(folder: Path, version: Long, checkpointId: Option[String], hadoop: Configuration)(
      each: RecordedWrite => Unit
  ): Boolean = {
    import RecordedWrite._
    val file = path(folder, version, checkpointId)
    val fs = file.getFileSystem(hadoop)
    fs.exists(file) && {
      Using.resource(new DataInputStream(new BufferedInputStream(fs.open(file), 1 << 16))) { in =>
        val families = scala.collection.mutable.ArrayBuffer.empty[String]
        def bytes(): Array[Byte] = {
          val of = new Array[Byte](in.readInt())
          in.readFully(of)
          of
        }
        var kind = in.readByte()
        while (kind != End) {
          val number = in.readShort().toInt
          if (kind == Family) families += in.readUTF()
          else {
            val key = bytes()
            each(RecordedWrite(kind, families(number), key, if (kind == Remove) null else bytes()))
          }
          kind =
            try in.readByte()
            catch { case _: EOFException => throw new java.io.IOException(s"$file has no end") }
        }
      }
      true
    }
  }
}
