package org.apache.spark.sql.laneshift.workload

import java.util.{EnumSet, Map => JMap, Set => JSet}

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A source of rows that follow from its options: a stream in micro-batches and in Real-time Mode and, if it has an end, a batch. In
  * Spark's package because the checkpoint's metadata log and the classic session are.
  */
private[workload] abstract class MadeUpProvider(name: String) extends TableProvider with DataSourceRegister {

  protected def parse(options: CaseInsensitiveStringMap, hadoop: => Configuration): MadeUpOptions[MadeUpRows]

  private def read(options: CaseInsensitiveStringMap) =
    parse(options, SparkSession.active.sessionState.newHadoopConf())

  override def shortName(): String = name

  override def inferSchema(options: CaseInsensitiveStringMap): StructType = read(options).rows.schema

  override def getTable(
      schema: StructType,
      partitioning: Array[Transform],
      properties: JMap[String, String]
  ): Table = new MadeUpTable(read(new CaseInsensitiveStringMap(properties)))
}

/** `format("laneshift-workload")`: a recoverable generator of keyed rows with skew, key shuffles and a rate over time. See
  * `docs/workload.md`.
  */
class WorkloadProvider extends MadeUpProvider(WorkloadSpec.Source) {
  override protected def parse(options: CaseInsensitiveStringMap, hadoop: => Configuration) =
    WorkloadOptions.parse(options, hadoop)
}

private final class MadeUpTable(options: MadeUpOptions[MadeUpRows]) extends Table with SupportsRead {
  override def name(): String = options.rows.source
  override def schema(): StructType = options.rows.schema
  override def capabilities(): JSet[TableCapability] =
    EnumSet.of(TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_READ)
  override def newScanBuilder(ignored: CaseInsensitiveStringMap): ScanBuilder =
    () => new MadeUpScan(options)
}

private final class MadeUpScan(options: MadeUpOptions[MadeUpRows]) extends Scan {
  override def readSchema(): StructType = options.rows.schema

  override def description(): String = options.toString

  override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream = {
    val log = StartRecord.log(SparkSession.active, checkpointLocation)
    val start = StartRecord.startMicros(options.start, options.identity, log, WallClock.read())
    new WorkloadStream(options, options.rows.startingAt(start))
  }

  /** All rows at once: those against which a stream's answer can be checked. */
  override def toBatch: Batch = {
    if (!options.rows.bounded)
      throw new WorkloadOptionException(
        s"${options.rows.source} never ends; to read it as a batch, set the option ${options.end}."
      )
    val rows = options.rows.startingAt(options.start.getOrElse(WallClock.read()))
    new Batch {
      override def planInputPartitions(): Array[InputPartition] =
        Array.tabulate(rows.partitions)(p => WorkloadInputPartition(p, 0, rows.dealt(rows.totalRows, p)))
      override def createReaderFactory(): PartitionReaderFactory = WorkloadReaderFactory(rows, paced = false)
    }
  }
}
