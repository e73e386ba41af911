package org.apache.spark.sql.laneshift.driver

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.sql.streaming.{SourceProgress, StateOperatorProgress, StreamingQueryProgress}

/** A source in one batch: `rows` of it were read, and `backlogRows` more were there when the batch was planned, if the source
  * tells.
  */
final case class SourceView(name: String, rows: Long, rowsPerSecond: Double, backlogRows: Option[Long])

/** The stores of a stateful operator, elastic or not, in one batch: how many in so many state partitions, how long opening and
  * committing all of them took, and what that wrote.
  */
final case class StoresView(name: String, partitions: Long, stores: Long, commitMs: Long, writtenBytes: Long)

/** A batch that has ended, as Spark reports it. */
final case class BatchView(
    batchId: Long,
    durationMs: Long,
    sources: Seq[SourceView],
    state: Seq[StoresView] = Nil
)

object BatchView {
  private val mapper = new ObjectMapper

  /** Sources whose offsets count rows. */
  private val CountsRows = Seq("Kafka", "laneshift-")

  def of(progress: StreamingQueryProgress): BatchView =
    BatchView(
      progress.batchId,
      progress.batchDuration,
      progress.sources.toSeq.map(source),
      progress.stateOperators.toSeq.map(stores)
    )

  private[laneshift] def stores(s: StateOperatorProgress): StoresView = {
    // Providers have metrics of their own: those of RocksDB's are 0 for others.
    def custom(name: String): Long = Option(s.customMetrics.get(name)).fold(0L)(_.longValue)
    StoresView(
      s.operatorName,
      s.numShufflePartitions,
      s.numStateStoreInstances,
      s.commitTimeMs + custom("rocksdbLoadLatencyMs"),
      // Tables that were uploaded; with changelogs, or before there is a table, what was put.
      math.max(custom("rocksdbBytesCopied"), custom("rocksdbTotalBytesWritten"))
    )
  }

  private[laneshift] def source(s: SourceProgress): SourceView = {
    val rate = if (s.inputRowsPerSecond.isFinite) s.inputRowsPerSecond else 0.0
    SourceView(s.description, s.numInputRows, rate, backlog(s))
  }

  /** Rows between the end of the batch and the newest that the source had. */
  private def backlog(s: SourceProgress): Option[Long] =
    if (s.endOffset == null || s.latestOffset == null || !CountsRows.exists(s.description.startsWith)) None
    else Try(ahead(mapper.readTree(s.latestOffset), mapper.readTree(s.endOffset))).toOption

  /** The sum, over all numbers that both have in the same place, of how far `latest` is ahead. */
  private def ahead(latest: JsonNode, end: JsonNode): Long =
    if (latest.isIntegralNumber && end.isIntegralNumber) math.max(0L, latest.asLong - end.asLong)
    else if (latest.isArray && end.isArray)
      latest.elements.asScala.zip(end.elements.asScala).map { case (l, e) => ahead(l, e) }.sum
    else
      latest.fieldNames.asScala.collect { case f if end.has(f) => ahead(latest.get(f), end.get(f)) }.sum
}
