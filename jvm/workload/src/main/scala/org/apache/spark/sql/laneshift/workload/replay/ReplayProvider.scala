package org.apache.spark.sql.laneshift.workload.replay

import java.util.{EnumSet, Map => JMap, Set => JSet}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.laneshift.workload.{StartRecord, WallClock}
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** `format("laneshift-replay")`. */
class ReplayProvider extends TableProvider with DataSourceRegister {

  override def shortName(): String = ReplayOptions.Source

  override def supportsExternalMetadata(): Boolean = true // .schema(...)

  override def inferSchema(options: CaseInsensitiveStringMap): StructType = {
    val (session, read) = parse(options)
    ReplayColumns.ofFiles(read.files.schema(session), read, session.sessionState.conf.resolver)
  }

  override def getTable(
      schema: StructType,
      partitioning: Array[Transform],
      properties: JMap[String, String]
  ): Table = {
    val (session, read) = parse(new CaseInsensitiveStringMap(properties))
    new ReplayTable(read, ReplayColumns.resolve(schema, read, session.sessionState.conf.resolver))
  }

  private def parse(options: CaseInsensitiveStringMap): (SparkSession, ReplayOptions) = {
    val session = SparkSession.active
    (session, ReplayOptions.parse(options, session.sessionState.newHadoopConf()))
  }
}

private[replay] final class ReplayTable(options: ReplayOptions, columns: ReplayColumns)
    extends Table
    with SupportsRead {
  override def name(): String = ReplayOptions.Source
  override def schema(): StructType = columns.schema
  override def capabilities(): JSet[TableCapability] = EnumSet.of(TableCapability.MICRO_BATCH_READ)
  override def newScanBuilder(ignored: CaseInsensitiveStringMap): ScanBuilder =
    () => new ReplayScan(options, columns)
}

private[replay] final class ReplayScan(options: ReplayOptions, columns: ReplayColumns) extends Scan {

  override def readSchema(): StructType = columns.schema

  override def description(): String = s"${ReplayOptions.Source}[${options.files.path}]"

  /** Reads the files. What decides the rows goes into the checkpoint: a restart makes them again, or says why it
    * cannot.
    */
  override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream = {
    val session = SparkSession.active
    val chunks = ReplayChunk.read(session, options, columns)
    val rows = chunks.map(_.lengths.length).sum
    val identity = Seq(
      "path" -> f"$rows rows with checksum ${ReplayChunk.fingerprint(chunks)}%016x",
      "numPartitions" -> options.partitions.toString,
      "partitionBy" -> options.partitionBy.getOrElse("not set"),
      "rowsPerSecond" -> options.rate
    )
    val blocks = ReplayBlock.deal(chunks, options.partitions)
    val log = StartRecord.log(session, checkpointLocation)
    val start = StartRecord.startMicros(options.start, identity, log, WallClock.read())
    columns.sent.foreach { sent =>
      blocks.foreach(_.stamp(columns.schema.length, sent, options.schedule, start))
    }
    new ReplayStream(
      options,
      columns.schema.length,
      new ReplayPlan(blocks.map(_.positions), options.schedule, start),
      blocks.map(session.sparkContext.broadcast(_))
    )
  }
}
