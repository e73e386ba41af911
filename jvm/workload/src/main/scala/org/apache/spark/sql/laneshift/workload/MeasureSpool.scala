package org.apache.spark.sql.laneshift.workload

import java.io.BufferedWriter
import java.nio.file.{Files, Path}
import java.util.UUID

import scala.jdk.CollectionConverters._

import org.HdrHistogram.Histogram

/** What one sink task finds, in a file of its own: a line for each 100 ms that had rows, once they are over. It has the time in ms
  * since 1970 at which they began, the rows, and of their latencies pairs of microseconds, to a percent, and the rows that had
  * them: `1700000000000 3 1200:2 5400:1`. For executors that share a file system with who reads it.
  */
private[workload] final class MeasureSpool(folder: Path) {
  private val out: BufferedWriter = {
    Files.createDirectories(folder)
    Files.newBufferedWriter(folder.resolve(s"${UUID.randomUUID}.slots"))
  }
  private val latencies = new Histogram(Meter.MostMicros, 2)
  private var slot = -1L
  private var rows = 0L

  def row(now: Long): Unit = {
    val current = now / Meter.SlotMicros
    if (current != slot) {
      flush()
      slot = current
    }
    rows += 1
  }

  def latency(micros: Long): Unit = latencies.recordValue(math.min(math.max(micros, 0L), Meter.MostMicros))

  private def flush(): Unit = if (rows > 0) {
    out.write(s"${slot * Meter.SlotMicros / 1000} $rows")
    latencies.recordedValues.asScala.foreach { at =>
      out.write(s" ${at.getValueIteratedTo}:${at.getCountAtValueIteratedTo}")
    }
    out.write('\n')
    out.flush()
    latencies.reset()
    rows = 0
  }

  def close(): Unit =
    try flush()
    finally out.close()
}
