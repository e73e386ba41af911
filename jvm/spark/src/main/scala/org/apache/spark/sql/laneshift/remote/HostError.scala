package org.apache.spark.sql.laneshift.remote

import scala.util.control.NonFatal

import org.apache.spark.SparkException
import org.apache.spark.memory.SparkOutOfMemoryError
import org.apache.spark.sql.laneshift.lane.HostAddress
import org.apache.spark.sql.laneshift.wire.RpcBytes
import org.apache.spark.util.Utils

/** Errors of a lane's body on their way home. One that ends an executor is of the executor where it came about: home, which rethrows
  * what it gets, hears only what it says.
  */
private[laneshift] object HostError {

  /** The error itself or, if it cannot be written or there is a fatal one in it, what it says. */
  def write(error: Throwable): Array[Byte] =
    try if (isFatal(error)) said(error) else RpcBytes.of(error)
    catch { case NonFatal(_) => said(error) }

  private def said(error: Throwable): Array[Byte] =
    RpcBytes.of[Throwable](
      new SparkException(s"$error\n${error.getStackTrace.take(20).mkString("\n")}")
    )

  /** Whether it, or what has caused it, ends an executor whose task throws it. */
  def isFatal(error: Throwable): Boolean =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(Deepest).exists {
      case _: SparkOutOfMemoryError => false
      case each => Utils.isFatalError(each)
    }

  /** Causes may go round in a circle. */
  private val Deepest = 100

  def read(bytes: Array[Byte], host: HostAddress): Throwable =
    try RpcBytes.read[Throwable](bytes, Thread.currentThread.getContextClassLoader)
    catch {
      case NonFatal(error) =>
        new SparkException(s"A lane on $host has failed with an error that cannot be read", error)
    }
}
