package org.apache.spark.sql.laneshift.workload.replay

import java.io.ByteArrayOutputStream

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, XXH64}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.functions.{col, hash, lit, pmod}
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.Platform

/** Rows that a task has read from one split of a file, encoded, in their order.
  *
  * @param from where the split starts in the file
  * @param targets the partition of each row, or none if rows go to the partitions in turn
  */
private[replay] final case class ReplayChunk(
    file: String,
    from: Long,
    bytes: Array[Byte],
    lengths: Array[Int],
    targets: Array[Int]
)

private[replay] object ReplayChunk {

  /** All rows of the files, read once by batch Spark, in the order of file names and positions. */
  def read(session: SparkSession, options: ReplayOptions, columns: ReplayColumns): Seq[ReplayChunk] = {
    val rows = options.files.rows(session, columns.ofFiles)
    val values = columns.schema.zipWithIndex.map {
      case (field, i) if columns.sent.contains(i) => lit(0L).cast(field.dataType)
      case (field, _) => col(quoteIfNeeded(field.name))
    }
    val target = columns.key.fold(lit(-1))(i => pmod(hash(values(i)), lit(options.partitions)))
    val split = rows.metadataColumn("_metadata")
    val all = values ++ Seq(target, split.getField("file_name"), split.getField("file_block_start"))
    val types = columns.schema.map(_.dataType)
    val chunks = rows
      .select(all: _*)
      .queryExecution
      .toRdd
      .mapPartitions(encode(_, types, ReplayFiles.MaxRows, ReplayFiles.MaxBytes))
      .collect()
    ReplayFiles.checkSize(
      options.files.path,
      chunks.map(_.lengths.length.toLong).sum,
      chunks.map(_.lengths.foldLeft(0L)(_ + _)).sum
    )
    chunks.toSeq.sortBy(c => (c.file, c.from))
  }

  /** The same for the same rows in the same order, however they are split. */
  def fingerprint(chunks: Seq[ReplayChunk]): Long = chunks.foldLeft(0L) { (before, chunk) =>
    var at = Platform.BYTE_ARRAY_OFFSET.toLong
    chunk.lengths.foldLeft(before) { (sum, length) =>
      at += length
      XXH64.hashUnsafeBytes(chunk.bytes, at - length, length, sum)
    }
  }

  /** Ends early, past the limit and without the bytes, when there are too many rows. */
  private[replay] def encode(
      rows: Iterator[InternalRow],
      types: Seq[DataType],
      maxRows: Long,
      maxBytes: Long
  ): Iterator[ReplayChunk] = {
    val project = UnsafeProjection.create(types.zipWithIndex.map { case (t, i) =>
      BoundReference(i, t, true)
    })
    val chunks = ArrayBuffer.empty[Building]
    var (count, size) = (0L, 0L)
    while (rows.hasNext && count <= maxRows && size <= maxBytes) {
      val row = rows.next()
      val (file, from) = (row.getUTF8String(types.length + 1).toString, row.getLong(types.length + 2))
      if (!chunks.lastOption.exists(c => c.file == file && c.from == from)) chunks += new Building(file, from)
      size += chunks.last.add(project(row).getBytes, row.getInt(types.length))
      count += 1
    }
    chunks.iterator.map(_.chunk(keep = count <= maxRows && size <= maxBytes))
  }

  private final class Building(val file: String, val from: Long) {
    private val bytes = new ByteArrayOutputStream()
    private val lengths, targets = Array.newBuilder[Int]

    def add(row: Array[Byte], target: Int): Int = {
      bytes.write(row)
      lengths += row.length
      if (target >= 0) targets += target
      row.length
    }

    def chunk(keep: Boolean): ReplayChunk =
      ReplayChunk(
        file,
        from,
        if (keep) bytes.toByteArray else Array.emptyByteArray,
        lengths.result(),
        targets.result()
      )
  }
}
