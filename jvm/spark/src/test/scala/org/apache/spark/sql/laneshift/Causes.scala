package org.apache.spark.sql.laneshift

import scala.jdk.CollectionConverters._

import org.apache.commons.lang3.exception.ExceptionUtils

/** An error and those behind it. */
object Causes {
  def apply(error: Throwable): Seq[String] = of(error).map(_.toString)

  /** Without the names of their classes. */
  def messages(error: Throwable): Seq[String] = of(error).map(e => String.valueOf(e.getMessage))

  private def of(error: Throwable): Seq[Throwable] = ExceptionUtils.getThrowableList(error).asScala.toSeq
}
