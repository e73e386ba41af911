package org.apache.spark.sql.laneshift.workload

import java.util.{EnumSet, Map => JMap, Set => JSet}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** `format("laneshift-workload")`: a recoverable generator of keyed rows with skew, key shuffles and a rate
  * over time. See `docs/workload.md`. In Spark's package because the checkpoint's metadata log and the classic
  * session are.
  */
class WorkloadProvider extends TableProvider with DataSourceRegister {

  override def shortName(): String = "laneshift-workload"

  override def inferSchema(options: CaseInsensitiveStringMap): StructType = {
    WorkloadTable.parse(options) // so that a wrong option fails here, before there is a query
    WorkloadRows.Schema
  }

  override def getTable(
      schema: StructType,
      partitioning: Array[Transform],
      properties: JMap[String, String]
  ): Table =
    new WorkloadTable(WorkloadTable.parse(new CaseInsensitiveStringMap(properties)))
}

private[workload] final class WorkloadTable(options: WorkloadOptions) extends Table with SupportsRead {
  override def name(): String = "laneshift-workload"
  override def schema(): StructType = WorkloadRows.Schema
  override def capabilities(): JSet[TableCapability] =
    EnumSet.of(TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_READ)
  override def newScanBuilder(ignored: CaseInsensitiveStringMap): ScanBuilder =
    () => new WorkloadScan(options)
}

private[workload] object WorkloadTable {
  def parse(options: CaseInsensitiveStringMap): WorkloadOptions =
    WorkloadOptions.parse(options, SparkSession.active.sessionState.newHadoopConf())
}

private[workload] final class WorkloadScan(options: WorkloadOptions) extends Scan {
  override def readSchema(): StructType = WorkloadRows.Schema

  override def description(): String = options.toString

  override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream = {
    val log = StartRecord.log(SparkSession.active, checkpointLocation)
    val spec = StartRecord.resolve(options, log, WallClock.read())
    new WorkloadStream(
      spec,
      options.paced,
      Seq("rowsPerBatch" -> options.rowsPerBatch, "maxRowsPerTrigger" -> options.maxRowsPerTrigger),
      "totalRows",
      WorkloadReaderFactory(spec, options.paced),
      options.toString
    )
  }

  /** All of `totalRows` at once: the rows against which a stream's answer can be checked. */
  override def toBatch: Batch = {
    if (!options.bounded)
      throw new WorkloadOptionException(
        "laneshift-workload never ends; to read it as a batch, set the option totalRows."
      )
    val spec = options.startingAt(options.start.getOrElse(WallClock.read()))
    new Batch {
      override def planInputPartitions(): Array[InputPartition] =
        Array.tabulate(spec.partitions)(p => WorkloadInputPartition(p, 0, spec.dealt(spec.totalRows, p)))
      override def createReaderFactory(): PartitionReaderFactory = WorkloadReaderFactory(spec, paced = false)
    }
  }
}
