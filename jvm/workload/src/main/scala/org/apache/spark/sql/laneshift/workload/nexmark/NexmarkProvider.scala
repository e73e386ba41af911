package org.apache.spark.sql.laneshift.workload.nexmark

import java.util.{EnumSet, Map => JMap, Set => JSet}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.laneshift.workload.{
  StartRecord,
  WallClock,
  WorkloadInputPartition,
  WorkloadOptionException,
  WorkloadReader,
  WorkloadStream
}
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** `format("laneshift-nexmark")`. */
class NexmarkProvider extends TableProvider with DataSourceRegister {

  override def shortName(): String = NexmarkSpec.Source

  override def inferSchema(options: CaseInsensitiveStringMap): StructType = parse(options).rows.table.schema

  override def getTable(
      schema: StructType,
      partitioning: Array[Transform],
      properties: JMap[String, String]
  ): Table = new Nexmark(parse(new CaseInsensitiveStringMap(properties)))

  private def parse(options: CaseInsensitiveStringMap): NexmarkOptions =
    NexmarkOptions.parse(options, SparkSession.active.sessionState.newHadoopConf())
}

private[nexmark] final class Nexmark(options: NexmarkOptions) extends Table with SupportsRead {
  override def name(): String = NexmarkSpec.Source
  override def schema(): StructType = options.rows.table.schema
  override def capabilities(): JSet[TableCapability] =
    EnumSet.of(TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_READ)
  override def newScanBuilder(ignored: CaseInsensitiveStringMap): ScanBuilder =
    () => new NexmarkScan(options)
}

private[nexmark] final class NexmarkScan(options: NexmarkOptions) extends Scan {

  override def readSchema(): StructType = options.rows.table.schema

  override def description(): String = options.toString

  override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream = {
    val log = StartRecord.log(SparkSession.active, checkpointLocation)
    val start = StartRecord.startMicros(options.start, options.identity, log, WallClock.read())
    val spec = options.startingAt(start)
    new WorkloadStream(
      spec,
      options.paced,
      Seq("eventsPerBatch" -> options.rowsPerBatch),
      "totalEvents",
      NexmarkReaderFactory(spec, options.paced),
      options.toString
    )
  }

  /** All of `totalEvents` at once: the rows against which a stream's answer can be checked. */
  override def toBatch: Batch = {
    if (!options.rows.bounded)
      throw new WorkloadOptionException(
        s"${NexmarkSpec.Source} never ends; to read it as a batch, set the option totalEvents."
      )
    val spec = options.startingAt(options.start.getOrElse(WallClock.read()))
    new Batch {
      override def planInputPartitions(): Array[InputPartition] =
        Array.tabulate(spec.partitions)(p => WorkloadInputPartition(p, 0, spec.dealt(spec.totalRows, p)))
      override def createReaderFactory(): PartitionReaderFactory = NexmarkReaderFactory(spec, paced = false)
    }
  }
}

/** @param paced in Real-time Mode: whether a row waits until it is due */
private[nexmark] final case class NexmarkReaderFactory(spec: NexmarkSpec, paced: Boolean)
    extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = partition match {
    case p: WorkloadInputPartition =>
      val pace = WorkloadReader.paceOfTask(spec.partitions)
      new WorkloadReader(NexmarkRows.of(spec, p.partition), paced, p, pace)
    case other => throw new IllegalArgumentException(s"not a partition of ${spec.source}: $other")
  }
}
