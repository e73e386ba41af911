package org.apache.spark.sql.laneshift.workload

import java.nio.file.{Path, Paths}
import java.util.{EnumSet, Set => JSet}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{SupportsWrite, Table, TableCapability}
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.streaming.{StreamingDataWriterFactory, StreamingWrite}
import org.apache.spark.sql.internal.connector.{SimpleTableProvider, SupportsStreamingUpdateAsAppend}
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.types.{DataType, StringType, StructType, TimestampType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** `format("laneshift-measure")`: a sink that counts rows and, if `timeColumn` is set, measures how long after that time they
  * came. It keeps no rows, but the text of `lineColumn` if that is set. What it found is read from [[MeasureRegistry]] in the same JVM, so
  * in local mode, or from the files that its tasks write to `folder`, wherever they run. See `docs/workload.md`. In Spark's package because `SimpleTableProvider` and streaming updates are private to it.
  */
class MeasureProvider extends SimpleTableProvider with DataSourceRegister {
  override def shortName(): String = "laneshift-measure"
  override def getTable(options: CaseInsensitiveStringMap): Table = new MeasureTable(options)
}

private[workload] final class MeasureTable(options: CaseInsensitiveStringMap)
    extends Table
    with SupportsWrite {
  override def name(): String = "laneshift-measure"
  override def schema(): StructType = new StructType()
  override def capabilities(): JSet[TableCapability] =
    EnumSet.of(TableCapability.STREAMING_WRITE, TableCapability.ACCEPT_ANY_SCHEMA)
  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = {
    val factory = MeasureWriterFactory.of(options, info.schema())
    new WriteBuilder with SupportsStreamingUpdateAsAppend {
      override def build(): Write = new Write {
        override def toStreaming: StreamingWrite = new MeasureWrite(factory)
      }
    }
  }
}

private[workload] final class MeasureWrite(factory: MeasureWriterFactory) extends StreamingWrite {
  override def createStreamingWriterFactory(info: PhysicalWriteInfo): StreamingDataWriterFactory = factory
  override def useCommitCoordinator(): Boolean = false
  override def commit(epoch: Long, messages: Array[WriterCommitMessage]): Unit = ()
  override def abort(epoch: Long, messages: Array[WriterCommitMessage]): Unit = ()
}

/** @param timeOrdinal column with the time (microseconds since 1970) at which a row was due, or -1
  * @param lineOrdinal column with the text that is kept of a row, or -1
  * @param settleMicros a batch counts as settled so long after its tasks' start
  * @param folder to which tasks write what they find; empty for none
  */
private[workload] final case class MeasureWriterFactory(
    name: String,
    timeOrdinal: Int,
    lineOrdinal: Int,
    settleMicros: Long,
    folder: String
) extends StreamingDataWriterFactory {
  override def createWriter(partition: Int, task: Long, epoch: Long): DataWriter[InternalRow] =
    new MeasureWriter(
      MeasureRegistry.of(name),
      timeOrdinal,
      lineOrdinal,
      settleMicros,
      Option(folder).filter(_.nonEmpty).map(Paths.get(_))
    )
}

private[workload] object MeasureWriterFactory {
  private val Known =
    Set(
      "name",
      "timecolumn",
      "linecolumn",
      "settlems",
      "folder",
      "path",
      "checkpointlocation",
      "queryname",
      "asyncprogresstrackingenabled"
    )

  def of(options: CaseInsensitiveStringMap, schema: StructType): MeasureWriterFactory = {
    options.keySet().forEach { key =>
      if (!Known(key)) throw new WorkloadOptionException(
        s"laneshift-measure has no option '$key'. Its options are name, timeColumn, lineColumn, settleMs and folder."
      )
    }
    val name = Option(options.get("name")).filter(_.nonEmpty).getOrElse {
      throw new WorkloadOptionException(
        "laneshift-measure needs the option 'name': MeasureRegistry.read(name) gives what it measured."
      )
    }
    val settle = Option(options.get("settleMs")).getOrElse("1000")
    val millis = settle.toLongOption.filter(ms => ms >= 0 && ms <= 600000).getOrElse {
      throw new WorkloadOptionException(
        s"Option 'settleMs' of laneshift-measure is '$settle', but must be a number of milliseconds from 0 to 600000."
      )
    }
    val time = ordinal(options, schema, "timeColumn", TimestampType)
    val folder = Option(options.get("folder")).getOrElse("")
    if (folder.nonEmpty && !Paths.get(folder).isAbsolute) throw new WorkloadOptionException(
      s"Option 'folder' of laneshift-measure is '$folder', but executors have other working directories: give an absolute path of a " +
        "folder that all of them see."
    )
    val line = ordinal(options, schema, "lineColumn", StringType)
    MeasureWriterFactory(name, time, line, millis * 1000, folder)
  }

  /** Which column the option names, which must be of that type; -1 if it is not set. */
  private def ordinal(
      options: CaseInsensitiveStringMap,
      schema: StructType,
      option: String,
      of: DataType
  ): Int =
    Option(options.get(option)).fold(-1) { column =>
      val at = schema.fieldNames.indexOf(column)
      if (at < 0 || schema(at).dataType != of) throw new WorkloadOptionException(
        s"Option '$option' of laneshift-measure is '$column', but that is none of the query's ${of.sql} columns: " +
          schema.fields.filter(_.dataType == of).map(_.name).mkString("(", ", ", ").")
      )
      at
    }
}

/** Counts rows by the time they come and how late they are. A row is ''steady'' if it was due when its batch had settled:
  * what waited for the pause between two batches is not.
  */
private[workload] final class MeasureWriter(
    meter: Meter,
    timeOrdinal: Int,
    lineOrdinal: Int,
    settleMicros: Long,
    folder: Option[Path] = None
) extends DataWriter[InternalRow] {
  private val clock = new WallClock
  private val start = clock.now()
  private val tape = meter.newTape(start)
  private val spool = folder.map(new MeasureSpool(_))

  override def write(row: InternalRow): Unit = {
    val now = clock.now()
    spool.foreach(_.row(now))
    tape.row(now)
    if (timeOrdinal >= 0 && !row.isNullAt(timeOrdinal)) {
      val due = row.getLong(timeOrdinal)
      tape.latency(now - due, due >= start + settleMicros)
      spool.foreach(_.latency(now - due))
    }
    if (lineOrdinal >= 0 && !row.isNullAt(lineOrdinal)) meter.keep(now, row.getString(lineOrdinal))
  }

  override def commit(): WriterCommitMessage = null
  override def abort(): Unit = ()
  override def close(): Unit =
    try spool.foreach(_.close())
    finally tape.close()
}
