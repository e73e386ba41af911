package org.apache.spark.sql.laneshift.workload

import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{ForeachWriter, Row}

/** A sink for every mode that also recovers from a checkpoint, which the memory sink does not: collects the
  * rows of the tasks that ended well. A batch that is run again delivers its rows again.
  */
private[workload] final class Collector(name: String) extends ForeachWriter[Row] {
  private var rows: ArrayBuffer[Row] = _

  override def open(partition: Long, epoch: Long): Boolean = {
    rows = ArrayBuffer.empty
    true
  }
  override def process(row: Row): Unit = rows += row
  override def close(error: Throwable): Unit =
    if (error == null && rows != null) Collector.of(name).addAll(rows.asJava)
}

private[workload] object Collector {
  private val collected = new ConcurrentHashMap[String, ConcurrentLinkedQueue[Row]]

  private def of(name: String) = collected.computeIfAbsent(name, _ => new ConcurrentLinkedQueue[Row])

  def rows(name: String): Seq[Row] = of(name).asScala.toSeq
}
