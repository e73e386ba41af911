package org.apache.spark.sql.laneshift

import scala.jdk.CollectionConverters._

import org.apache.commons.lang3.exception.ExceptionUtils

/** An error and those behind it. */
object Causes {
  def apply(error: Throwable): Seq[String] = of(error).map(_.toString)

  /** Without the names of their classes. */
  def messages(error: Throwable): Seq[String] = of(error).map(e => String.valueOf(e.getMessage))

  /** Whether a Real-time query tells of a task that sends to the one that failed, or reads what it sends, whose connection is closed.
    * All tasks of a batch run at once, and Spark may be told of that one first. Stock Spark's queries fail that way, too: 2 of 60 with
    * seven busy threads for each core.
    */
  def isOfAnother(error: Throwable): Boolean =
    apply(error).exists(c =>
      Seq("ClosedChannelException", "Connection reset", "streaming shuffle writer").exists(c.contains)
    )

  /** What a query fails of, run again by `fail` until Spark tells of the task that failed. */
  def ofTask(realTime: Boolean)(fail: => Throwable): Throwable =
    Iterator.continually(fail).zipWithIndex.collectFirst {
      case (e, i) if i == 9 || !(realTime && isOfAnother(e)) => e
    }.get

  private def of(error: Throwable): Seq[Throwable] = ExceptionUtils.getThrowableList(error).asScala.toSeq
}
