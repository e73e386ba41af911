package org.apache.spark.sql.laneshift.workload.replay

import java.io.IOException
import java.util.Locale

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.DataSource
import org.apache.spark.sql.laneshift.workload.WorkloadOptionException
import org.apache.spark.sql.types.StructType

/** The files to replay, in the order of their names.
  *
  * @param path the option's value, for messages
  * @param format Spark's name of the files' format
  */
private[replay] final case class ReplayFiles(path: String, format: String, files: Seq[Path]) {
  import ReplayFiles._

  /** The columns as the files have them. */
  def schema(session: SparkSession): StructType = {
    val found = reader(session).load(files.map(_.toString): _*).schema
    if (found.isEmpty) refuse(path, "its files have no columns", "files with rows, or set the schema")
    found
  }

  /** The files' rows with these columns; a line that is no JSON is an error. */
  def rows(session: SparkSession, columns: StructType) =
    reader(session).schema(columns).load(files.map(_.toString): _*)

  private def reader(session: SparkSession) =
    session.read.format(format).option("mode", "FAILFAST").option(DataSource.GLOB_PATHS_KEY, "false")
}

private[replay] object ReplayFiles {

  val MaxRows = 2000000L
  val MaxBytes: Long = 512L << 20

  private val Json = """.*\.(json|jsonl|ndjson)(\.(gz|bz2|zst|snappy|lz4|deflate))?""".r
  private val Endings = "files that end in .parquet, or in .json, .jsonl or .ndjson (may be compressed)"

  /** Looks at names and sizes only. */
  def find(path: String, hadoop: Configuration): ReplayFiles = {
    val found = list(path, hadoop)
    if (found.isEmpty) refuse(path, "there are no files", Endings)
    found.find(_.isDirectory).foreach { sub =>
      refuse(path, s"it has the sub-folder '${sub.getPath.getName}'", s"a folder of nothing but $Endings")
    }
    val formats = found.map(file => formatOf(path, file.getPath.getName)).distinct
    if (formats.length > 1) refuse(path, s"it has files of both ${formats.mkString(" and ")}", "one format")
    checkSize(path, 0, found.map(_.getLen).sum)
    ReplayFiles(path, formats.head, found.map(_.getPath))
  }

  /** @param bytes of the files, or of their rows as Spark encodes them */
  def checkSize(path: String, rows: Long, bytes: Long, maxRows: Long = MaxRows): Unit = {
    val least = String.format(Locale.ROOT, "%,d rows and %,d MB", rows, bytes >> 20)
    if (rows > maxRows || bytes > MaxBytes)
      refuse(
        path,
        s"it holds at least $least, more than the ${String.format(Locale.ROOT, "%,d", maxRows)} rows or " +
          s"${MaxBytes >> 20} MB that are kept in memory",
        "fewer files or rows; Kafka replays more, laneshift-workload makes rows without end"
      )
  }

  def refuse(path: String, why: String, wayOut: String): Nothing = throw new WorkloadOptionException(
    s"Option 'path' of laneshift-replay is '$path', but $why. Give $wayOut."
  )

  private def list(path: String, hadoop: Configuration): Seq[FileStatus] =
    try {
      val root = new Path(path)
      val fs = root.getFileSystem(hadoop)
      val hidden = Set('.', '_')
      if (fs.getFileStatus(root).isFile) Seq(fs.getFileStatus(root))
      else fs.listStatus(root).toSeq.filterNot(s => hidden(s.getPath.getName.head)).sortBy(_.getPath.getName)
    } catch {
      case e @ (_: IOException | _: IllegalArgumentException) =>
        refuse(path, s"reading it failed: $e", "the path of a file or folder that every executor can read")
    }

  private def formatOf(path: String, name: String): String = name.toLowerCase(Locale.ROOT) match {
    case parquet if parquet.endsWith(".parquet") => "parquet"
    case Json(_*) => "json"
    case _ => refuse(path, s"'$name' is neither Parquet nor JSON lines by its name", Endings)
  }
}
