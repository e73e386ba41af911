package org.apache.spark.sql.laneshift.remote

import java.nio.ByteBuffer

import scala.reflect.ClassTag
import scala.util.control.NonFatal

import org.apache.spark.{SparkEnv, SparkException}
import org.apache.spark.sql.laneshift.lane.HostAddress

/** Objects in a session's messages. */
private[remote] object SessionBytes {
  private def serializer = SparkEnv.get.closureSerializer.newInstance()

  def of[T: ClassTag](value: T): Array[Byte] = {
    val buffer = serializer.serialize(value)
    val bytes = new Array[Byte](buffer.remaining)
    buffer.get(bytes)
    bytes
  }

  def read[T: ClassTag](bytes: Array[Byte], loader: ClassLoader): T =
    serializer.deserialize[T](ByteBuffer.wrap(bytes), loader)
}

/** Errors of a lane's body on their way home. */
private[remote] object HostError {

  /** The error itself or, if it cannot be written, what it says. */
  def write(error: Throwable): Array[Byte] =
    try SessionBytes.of(error)
    catch {
      case NonFatal(_) =>
        SessionBytes.of[Throwable](
          new SparkException(s"$error\n${error.getStackTrace.take(20).mkString("\n")}")
        )
    }

  def read(bytes: Array[Byte], host: HostAddress): Throwable =
    try SessionBytes.read[Throwable](bytes, Thread.currentThread.getContextClassLoader)
    catch {
      case NonFatal(error) =>
        new SparkException(s"A lane on $host has failed with an error that cannot be read", error)
    }
}
