package org.apache.spark.sql.laneshift

import java.nio.file.Path

import org.apache.spark.sql.{DataFrame, Dataset, Row}
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.streaming.InternalOutputModes
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.util.ManualClock

/** Processing time that goes on by a second for each batch, the same on both sides of a pair. */
final class SteppedClock extends ManualClock(SteppedClock.Start) {
  @volatile private var wanted = 0L

  override def waitTillTime(time: Long): Long = {
    wanted = time
    super.waitTillTime(time)
  }

  def start(spark: ClassicSession, query: QueryCase, input: DataFrame, checkpoint: Path)(
      sink: (Dataset[Row], Long) => Unit
  ): StreamingQuery = {
    wanted = 0L
    val built = query.build(input).asInstanceOf[ClassicDataset[Row]]
    val running = spark.streams.startQuery(
      userSpecifiedName = None,
      userSpecifiedCheckpointLocation = Some(checkpoint.toString),
      df = built,
      extraOptions = Map.empty,
      sink = new ForeachBatchSink[Row](sink, ExpressionEncoder(built.schema)),
      outputMode = InternalOutputModes(query.outputMode),
      trigger = Trigger.ProcessingTime(SteppedClock.StepMs),
      triggerClock = this
    )
    awaitBatch(running)
    running
  }

  /** Lets one batch run and waits for its end. */
  def step(running: StreamingQuery): Unit = {
    setTime(wanted)
    awaitBatch(running)
  }

  private def awaitBatch(running: StreamingQuery): Unit = Patience.until(running)(wanted > getTimeMillis())
}

object SteppedClock {
  val StepMs = 1000L

  /** Batches without data after the last one with, for what is due later. */
  val IdleSteps = 3
  private val Start = 1700000000000L
}
