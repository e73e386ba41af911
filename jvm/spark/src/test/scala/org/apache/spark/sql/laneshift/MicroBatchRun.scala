package org.apache.spark.sql.laneshift

import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.scheduler.{SparkListener, SparkListenerStageSubmitted, SparkListenerTaskEnd}
import org.apache.spark.scheduler.TaskLocality.TaskLocality
import org.apache.spark.sql.{DataFrame, Dataset, Row}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.datasources.v2.state.StateSourceOptions
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExecBase
import org.apache.spark.sql.execution.streaming.runtime.{
  MemoryStream,
  MicroBatchExecution,
  StreamExecution,
  StreamingQueryWrapper
}
import org.apache.spark.sql.laneshift.runtime.{ElasticRuntime, HandoffRecord}
import org.apache.spark.sql.streaming.{StateOperatorProgress, StreamingQuery, Trigger}

/** A streaming query over [[TestInput]], to be run on both sides of a pair. `stepped`: its processing time is that of a
  * [[SteppedClock]], a second from batch to batch.
  */
final case class QueryCase(name: String, outputMode: String, stepped: Boolean = false)(
    val build: DataFrame => DataFrame
)

/** The counts of one stateful operator in one batch: what must be equal on both sides. */
final case class OperatorCounts(
    operator: String,
    rowsTotal: Long,
    rowsUpdated: Long,
    rowsRemoved: Long,
    droppedByWatermark: Long,
    storeInstances: Long,
    shufflePartitions: Long,
    declared: Map[String, Long],
    counted: Map[String, Long]
)

object OperatorCounts {
  def of(p: StateOperatorProgress): OperatorCounts = OperatorCounts(
    p.operatorName,
    p.numRowsTotal,
    p.numRowsUpdated,
    p.numRowsRemoved,
    p.numRowsDroppedByWatermark,
    p.numStateStoreInstances,
    p.numShufflePartitions,
    declared = custom(p).filter { case (name, _) => name.endsWith("Vars") },
    counted = custom(p).filterNot { case (name, _) => name.endsWith("Vars") }
  )

  /** How many of the rows that a batch has removed went along its input, and how many at its end: each lane removes its own, some
    * for each row that it gets.
    */
  private val WhenRemoved = "numRowsIncrementallyRemoved"

  /** The operator's own metrics that count: not its times, and not what RocksDB says of itself. */
  private def custom(p: StateOperatorProgress): Map[String, Long] =
    p.customMetrics.asScala.collect {
      case (name, n) if name.startsWith("num") && name != WhenRemoved => name -> n.longValue
    }.toMap
}

/** What one side of a pair did.
  *
  * @param batches the sink's rows by batch
  * @param localities how near to what they asked for the tasks of each batch ran: to their stores, that is
  */
final case class RunResult(
    batches: Seq[Seq[Row]],
    localities: Map[String, Set[TaskLocality]],
    counts: Seq[Seq[OperatorCounts]],
    state: Seq[String],
    handoffs: Long,
    midBatchHandoffs: Long,
    plan: String
)

/** Runs a query case in micro-batches, one per chunk of input, all in one checkpoint. */
object MicroBatchRun {

  def apply(
      spark: ClassicSession,
      query: QueryCase,
      chunks: Seq[Seq[TestInput]],
      checkpoint: Path
  ): RunResult = {
    val session = spark
    import session.implicits._
    val input = MemoryStream[TestInput](implicitly[org.apache.spark.sql.Encoder[TestInput]], spark)
    val batches = ArrayBuffer.empty[Seq[Row]]
    val counts = ArrayBuffer.empty[Seq[OperatorCounts]]
    def sink(rows: Dataset[Row], id: Long): Unit =
      batches.synchronized { batches += rows.collect().toSeq; () }
    val clock = new SteppedClock
    val tasks = new Localities
    spark.sparkContext.addSparkListener(tasks)
    val running =
      if (query.stepped) clock.start(spark, query, input.toDF(), checkpoint)(sink)
      else start(query, input.toDF(), checkpoint)(sink)
    try {
      chunks.foreach { chunk =>
        input.addData(chunk)
        if (query.stepped) clock.step(running) else running.processAllAvailable()
      }
      if (query.stepped) (1 to SteppedClock.IdleSteps).foreach(_ => clock.step(running))
      counts ++= countsOf(running)
      spark.sparkContext.listenerBus.waitUntilEmpty()
      RunResult(
        batches.toSeq,
        tasks.of(running),
        counts.toSeq,
        stateRows(spark, running, checkpoint),
        handoffs(running),
        midBatchHandoffs(running),
        planOf(running)
      )
    } finally {
      running.stop()
      spark.sparkContext.removeSparkListener(tasks)
    }
  }

  /** Called on the thread of Spark's listeners; read when these have been told everything. */
  private final class Localities extends SparkListener {
    private val batchOf = mutable.HashMap.empty[Int, (String, String)]
    private val seen = mutable.HashMap.empty[(String, String), Set[TaskLocality]]

    override def onStageSubmitted(event: SparkListenerStageSubmitted): Unit =
      for {
        own <- Option(event.properties)
        query <- Option(own.getProperty(StreamExecution.QUERY_ID_KEY))
        batch <- Option(own.getProperty(MicroBatchExecution.BATCH_ID_KEY))
      } batchOf(event.stageInfo.stageId) = query -> batch

    override def onTaskEnd(event: SparkListenerTaskEnd): Unit =
      batchOf.get(event.stageId).foreach { batch =>
        seen(batch) = seen.getOrElse(batch, Set.empty[TaskLocality]) + event.taskInfo.taskLocality
      }

    def of(query: StreamingQuery): Map[String, Set[TaskLocality]] =
      seen.collect { case ((id, batch), found) if id == query.id.toString => batch -> found }.toMap
  }

  def start(
      query: QueryCase,
      input: DataFrame,
      checkpoint: Path,
      trigger: Trigger = Trigger.ProcessingTime(0L)
  )(sink: (Dataset[Row], Long) => Unit): StreamingQuery =
    query
      .build(input)
      .writeStream
      .outputMode(query.outputMode)
      .trigger(trigger)
      .option("checkpointLocation", checkpoint.toString)
      .foreachBatch(sink)
      .start()

  /** By batch. */
  def countsOf(running: StreamingQuery): Seq[Seq[OperatorCounts]] =
    running.recentProgress.toSeq.filter(
      _.stateOperators.nonEmpty
    ).map(_.stateOperators.toSeq.map(OperatorCounts.of))

  /** The batches that a checkpoint says are committed, in their order. */
  def committed(checkpoint: Path): Seq[Long] =
    Using.resource(Files.list(checkpoint.resolve("commits"))) {
      _.iterator.asScala.flatMap(_.getFileName.toString.toLongOption).toSeq.sorted
    }

  /** The rows of every state store of the query, as text. */
  def stateRows(spark: ClassicSession, query: StreamingQuery, checkpoint: Path): Seq[String] =
    (for (w <- operators(query); part <- partsOf(w)) yield {
      val operator = w.getStateInfo.operatorId
      val reader = spark.read.format("statestore").option("operatorId", operator).options(part)
      val rows =
        if (part.contains(AllFamilies))
          reader.load(checkpoint.toString).selectExpr(
            "spark_partition_id()",
            "concat_ws(' ', column_family_name, to_json(partition_key), hex(key_bytes), hex(value_bytes))"
          )
        else reader.load(checkpoint.toString).selectExpr("partition_id", "to_json(struct(key, value))")
      val store = part.get("storeName").fold(s"$operator")(name => s"$operator $name")
      rows.collect().map(r => s"$store/${r.getInt(0)}: ${r.getString(1)}").toSeq
    }).flatten.sorted

  private val AllFamilies = StateSourceOptions.INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES

  /** How the state data source has to be asked for all of an operator's state: once per element. */
  private def partsOf(writer: StateStoreWriter): Seq[Map[String, String]] = writer match {
    case j: StreamingSymmetricHashJoinExec if j.stateFormatVersion < 3 =>
      j.stateStoreNames.map(name => Map("storeName" -> name))
    case _: StreamingSymmetricHashJoinExec | _: TransformWithStateExecBase => Seq(Map(AllFamilies -> "true"))
    case _ => Seq(Map.empty)
  }

  private def execution(query: StreamingQuery) =
    query.asInstanceOf[StreamingQueryWrapper].streamingQuery.lastExecution

  private def operators(query: StreamingQuery): Seq[StateStoreWriter] =
    execution(query).executedPlan.collect { case w: StateStoreWriter if w.stateInfo.isDefined => w }

  def planOf(query: StreamingQuery): String = execution(query).executedPlan.toString

  /** Handoffs that the executors of this run have on record. */
  def handoffs(query: StreamingQuery): Long = recorded(query)(_ => true)

  /** Those that paused a shard while its partition ran. */
  def midBatchHandoffs(query: StreamingQuery): Long = recorded(query)(_.pauseNs > 0)

  private def recorded(query: StreamingQuery)(wanted: HandoffRecord => Boolean): Long =
    ElasticRuntime.get.history
      .newest(Int.MaxValue)(h => h.key.runId == query.runId.toString && wanted(h))
      .size
      .toLong
}
