package org.apache.spark.sql.laneshift.runtime

import java.util.concurrent.TimeUnit

import org.HdrHistogram.Recorder

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.laneshift.spec.{ElasticSpec, InputSpec, StateMetrics}

/** Rows that went by, and their bytes in Spark's binary format. Exact for the thread that counts, roughly so for others. */
private[laneshift] final class RowCount {
  var rows = 0L
  var bytes = 0L

  /** When the first one came, by the monotonic clock; 0 before. */
  @volatile var sinceNs = 0L

  def add(size: Int): Unit = {
    if (rows == 0L) sinceNs = System.nanoTime()
    rows += 1
    bytes += size
  }
}

/** Counts what one task of an elastic partition reads and puts out.
  *
  * @param latencies how old its outputs are, if they say when their rows set out
  */
private[laneshift] final class BatchMeter(
    spec: ElasticSpec,
    latencies: Option[Recorder],
    keys: Seq[KeySampler]
) {
  val in = new RowCount
  val out = new RowCount

  /** The rows of an input in Spark's binary format, which lanes' queues hold: a source's own may be of any kind. The same row
    * object may come again and again.
    */
  def input(index: Int, rows: Iterator[InternalRow]): Iterator[UnsafeRow] =
    new InputRows(rows, spec.inputs(index), in, if (keys.isEmpty) null else keys(index))

  def output(rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val counted = new OutputRows(rows, out, new RowSizes(spec))
    spec.sentAt.zip(latencies).fold[Iterator[InternalRow]](counted) { case (ordinal, ages) =>
      counted.map { row =>
        if (!row.isNullAt(ordinal))
          ages.recordValue(
            math.min(
              BatchMeter.LongestMs,
              math.max(0L, System.currentTimeMillis() - row.getLong(ordinal) / 1000L)
            )
          )
        row
      }
    }
  }
}

private[laneshift] object BatchMeter {

  /** Older outputs count as so old: a day. */
  val LongestMs: Long = 24L * 3600 * 1000
}

/** @param keys what samples the rows' keys, or null */
private final class InputRows(
    rows: Iterator[InternalRow],
    spec: InputSpec,
    count: RowCount,
    keys: KeySampler
) extends Iterator[UnsafeRow] {
  private lazy val toUnsafe = UnsafeProjection.create(spec.types.toArray)

  override def hasNext: Boolean = rows.hasNext
  override def next(): UnsafeRow = {
    val row = rows.next() match {
      case unsafe: UnsafeRow => unsafe
      case other => toUnsafe(other)
    }
    count.add(row.getSizeInBytes)
    if (keys != null) keys.saw(row)
    row
  }
}

private final class OutputRows(rows: Iterator[InternalRow], count: RowCount, sizes: RowSizes)
    extends Iterator[InternalRow] {
  override def hasNext: Boolean = rows.hasNext
  override def next(): InternalRow = {
    val row = rows.next()
    count.add(sizes.of(row))
    row
  }
}

/** Bytes of output rows. What Python workers send back is in another format: of those one in 64 is measured, and stands for
  * the ones behind it.
  */
private final class RowSizes(spec: ElasticSpec) {
  private lazy val toUnsafe = UnsafeProjection.create(spec.outputs.toArray)
  private var others = 0L
  private var last = 0

  def of(row: InternalRow): Int = row match {
    case unsafe: UnsafeRow => unsafe.getSizeInBytes
    case other =>
      if ((others & RowSizes.SampleMask) == 0L) last = toUnsafe(other).getSizeInBytes
      others += 1
      last
  }
}

private object RowSizes {
  private val SampleMask = 63L
}

/** A partition's state as its stores told at their last commit.
  *
  * @param rows keys of all its stores
  * @param memoryBytes what RocksDB holds in memory for them: new rows, caches and indexes
  * @param fileBytes RocksDB's files on the local disk
  */
final case class StateView(rows: Long, memoryBytes: Long, fileBytes: Long)

private[laneshift] object StateView {
  val none: StateView = StateView(0L, 0L, 0L)
}

/** What the stateful operators of a task have reported of its stores. */
private[runtime] final class Reported(task: TaskContext, metrics: StateMetrics) {
  private lazy val values: Map[Long, Long] = {
    val known = metrics.rows ++ metrics.memory ++ metrics.files ++ metrics.commits
    task
      .taskMetrics()
      .withExternalAccums(_.iterator.collect { case m: SQLMetric if known(m.id) => m.id -> m.value }.toList)
      .groupMapReduce(_._1)(_._2)(_ + _)
  }

  private def sum(ids: Set[Long]): Long = ids.iterator.map(values.getOrElse(_, 0L)).sum

  /** At their last commit; none if no store was committed. */
  def state: Option[StateView] =
    Some(StateView(sum(metrics.rows), sum(metrics.memory), sum(metrics.files))).filter(_ != StateView.none)

  /** How long their commits took. */
  def commitsNs: Long = TimeUnit.MILLISECONDS.toNanos(math.max(0L, sum(metrics.commits)))
}
