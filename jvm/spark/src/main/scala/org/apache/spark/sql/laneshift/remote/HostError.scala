package org.apache.spark.sql.laneshift.remote

import scala.util.control.NonFatal

import org.apache.spark.SparkException
import org.apache.spark.sql.laneshift.lane.HostAddress
import org.apache.spark.sql.laneshift.wire.RpcBytes

/** Errors of a lane's body on their way home. */
private[remote] object HostError {

  /** The error itself or, if it cannot be written, what it says. */
  def write(error: Throwable): Array[Byte] =
    try RpcBytes.of(error)
    catch {
      case NonFatal(_) =>
        RpcBytes.of[Throwable](
          new SparkException(s"$error\n${error.getStackTrace.take(20).mkString("\n")}")
        )
    }

  def read(bytes: Array[Byte], host: HostAddress): Throwable =
    try RpcBytes.read[Throwable](bytes, Thread.currentThread.getContextClassLoader)
    catch {
      case NonFatal(error) =>
        new SparkException(s"A lane on $host has failed with an error that cannot be read", error)
    }
}
