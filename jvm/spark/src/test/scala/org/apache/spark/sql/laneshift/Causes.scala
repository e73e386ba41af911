package org.apache.spark.sql.laneshift

import scala.jdk.CollectionConverters._

import org.apache.commons.lang3.exception.ExceptionUtils

/** An error and those behind it. */
object Causes {
  def apply(error: Throwable): Seq[String] = of(error).map(_.toString)

  /** Without the names of their classes. */
  def messages(error: Throwable): Seq[String] = of(error).map(e => String.valueOf(e.getMessage))

  /** What a query fails of, run again by `fail` until Spark tells of the task that failed. In Real-time Mode all tasks of a batch run
    * at once, and it may be told first of one that sends to that task, or reads what it sends: their connection is closed. Stock
    * Spark's queries fail that way, too: 2 of 60 with seven busy threads for each core.
    */
  def ofTask(realTime: Boolean)(fail: => Throwable): Throwable = {
    def isOthers(error: Throwable): Boolean = realTime && apply(error).exists(c =>
      c.contains("ClosedChannelException") || c.contains("streaming shuffle writer")
    )
    Iterator.continually(fail).zipWithIndex.collectFirst { case (e, i) if i == 9 || !isOthers(e) => e }.get
  }

  private def of(error: Throwable): Seq[Throwable] = ExceptionUtils.getThrowableList(error).asScala.toSeq
}
