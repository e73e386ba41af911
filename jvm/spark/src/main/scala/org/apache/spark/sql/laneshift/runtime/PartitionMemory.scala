package org.apache.spark.sql.laneshift.runtime

import scala.util.control.NonFatal

import org.apache.spark.api.plugin.PluginContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.laneshift.lane.HostAddress
import org.apache.spark.sql.laneshift.spec.OperatorKey
import org.apache.spark.sql.laneshift.wire.RpcBytes

/** What is remembered of a partition where it is not computed: by the driver, for the executor that has it next.
  *
  * @param batchId the batch at whose end this was so
  * @param auto whether the lanes were left to laneshift
  * @param elsewhere lanes that were wanted on other executors
  */
final case class PartitionMemory(
    batchId: Long,
    lanes: Int,
    auto: Boolean,
    elsewhere: Map[HostAddress, Int],
    routing: Array[Int],
    loads: Array[Double]
)

/** An executor tells the driver what to remember. */
final case class RememberPartition(key: OperatorKey, index: Int, memory: PartitionMemory)

/** An executor asks the driver what it remembers; the answer is an `Option[PartitionMemory]` in bytes ([[RpcBytes]]). */
final case class RecallPartition(key: OperatorKey, index: Int)

/** The driver's memory of partitions, as an executor's process reaches it. Nothing depends on its answers but lanes. */
private[laneshift] trait DriverMemory {

  /** Waits for nobody. */
  def remember(key: OperatorKey, index: Int, memory: PartitionMemory): Unit

  def recall(key: OperatorKey, index: Int): Option[PartitionMemory]

  /** As the driver calls this process. */
  def executorId: String
}

private[laneshift] final class PluginMemory(context: PluginContext) extends DriverMemory with Logging {
  override def executorId: String = context.executorID()

  override def remember(key: OperatorKey, index: Int, memory: PartitionMemory): Unit =
    attempt(())(context.send(RememberPartition(key, index, memory)))

  override def recall(key: OperatorKey, index: Int): Option[PartitionMemory] =
    attempt(Option.empty[PartitionMemory])(
      RpcBytes.read[Option[PartitionMemory]](
        context.ask(RecallPartition(key, index)).asInstanceOf[Array[Byte]]
      )
    )

  private def attempt[T](otherwise: T)(body: => T): T =
    try body
    catch {
      case NonFatal(error) =>
        logWarning(
          "The driver does not answer; the partition begins with the lanes that its query has.",
          error
        )
        otherwise
    }
}
