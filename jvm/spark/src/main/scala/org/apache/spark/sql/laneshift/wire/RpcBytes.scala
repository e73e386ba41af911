package org.apache.spark.sql.laneshift.wire

import java.nio.ByteBuffer

import scala.reflect.ClassTag

import org.apache.spark.SparkEnv

/** Objects as bytes: an executor's RPC layer knows Spark's classes, but not those of a jar that came with the application. */
private[laneshift] object RpcBytes {
  private def serializer = SparkEnv.get.closureSerializer.newInstance()

  def of[T: ClassTag](value: T): Array[Byte] = {
    val buffer = serializer.serialize(value)
    val bytes = new Array[Byte](buffer.remaining())
    buffer.get(bytes)
    bytes
  }

  def read[T: ClassTag](bytes: Array[Byte], loader: ClassLoader = getClass.getClassLoader): T =
    serializer.deserialize[T](ByteBuffer.wrap(bytes), loader)
}
