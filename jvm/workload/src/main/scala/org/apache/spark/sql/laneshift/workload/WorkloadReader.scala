package org.apache.spark.sql.laneshift.workload

import java.lang.{Long => JLong}

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.connector.read.streaming.{PartitionOffset, SupportsRealTimeRead}
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead.RecordStatus
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.laneshift.source.RowPace

/** Rows `from` (inclusively) to `until` (exclusively) of one partition, by sequence number. */
private[workload] final case class WorkloadInputPartition(partition: Int, from: Long, until: Long)
    extends InputPartition

/** @param paced in Real-time Mode: whether a row waits until it is due */
private[workload] final case class WorkloadReaderFactory(rows: MadeUpRows, paced: Boolean)
    extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = partition match {
    case p: WorkloadInputPartition => new WorkloadReader(rows, paced, p)
    case other => throw new IllegalArgumentException(s"not a partition of ${rows.source}: $other")
  }
}

/** Reads a range of rows as fast as they can be made (`next`), or each when it is due (`nextWithTimeout`) and `pace` allows it. */
private[workload] final class WorkloadReader(
    rows: PartitionRows,
    paced: Boolean,
    range: WorkloadInputPartition,
    pace: RowPace
) extends SupportsRealTimeRead[InternalRow] {
  import WorkloadReader._

  def this(rows: MadeUpRows, paced: Boolean, range: WorkloadInputPartition) =
    this(rows.of(range.partition), paced, range, WorkloadReader.paceOfTask(rows.partitions))

  private val clock = new WallClock
  private var clockWas = Long.MinValue // the last time read: while rows are late, one reading serves many
  private var seq = range.from
  private var row: InternalRow = _

  override def next(): Boolean = seq < range.until && {
    take(rows.dueMicros(seq))
    true
  }

  override def nextWithTimeout(startTimeMs: JLong, timeoutMs: JLong): RecordStatus =
    if (seq >= range.until) {
      clock.sleepUntil((startTimeMs + timeoutMs) * 1000)
      Nothing
    } else {
      val due = rows.dueMicros(seq)
      val deadline = (startTimeMs + timeoutMs) * 1000
      if (paced && due > clockWas && !waitFor(due, deadline) || !pace.isFree && !waitForPace(deadline))
        Nothing
      else {
        take(due)
        pace.came()
        Row
      }
    }

  private def waitFor(due: Long, deadline: Long): Boolean = {
    clockWas = clock.now()
    if (due > clockWas) {
      clock.sleepUntil(Math.min(due, deadline))
      clockWas = clock.now()
    }
    due <= clockWas
  }

  /** The limit may end or change meanwhile. */
  private def waitForPace(deadline: Long): Boolean = {
    clockWas = clock.now()
    var wait = pace.ask(clockWas)
    while (wait > 0 && clockWas < deadline) {
      clock.sleepUntil(Math.min(deadline, clockWas + Math.min(wait, LongestWait)))
      clockWas = clock.now()
      wait = pace.ask(clockWas)
    }
    wait == 0
  }

  private def take(due: Long): Unit = {
    row = rows(seq, due)
    seq += 1
  }

  override def get(): InternalRow = row

  override def getOffset(): PartitionOffset = WorkloadPartitionOffset(range.partition, seq)

  override def close(): Unit = ()
}

private[workload] object WorkloadReader {

  /** Microseconds after which a reader that is held back looks at its limit again. */
  private val LongestWait = 50000L

  /** The pace of the task that calls this, one of `readers`. A query's run is the job group of its tasks. */
  def paceOfTask(readers: Int): RowPace = {
    val task = Option(TaskContext.get()).filter(_.getLocalProperty(StreamExecution.QUERY_ID_KEY) != null)
    RowPace.of(
      task.flatMap(t => Option(t.getLocalProperty(SparkContext.SPARK_JOB_GROUP_ID))),
      task.fold(0)(_.partitionId()),
      readers
    )
  }

  private val Row = RecordStatus.newStatusWithoutArrivalTime(true)
  private val Nothing = RecordStatus.newStatusWithoutArrivalTime(false)
}
