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
  * @param load what the batch was like, where it may matter
  */
final case class PartitionMemory(
    batchId: Long,
    wish: LaneWish,
    routing: Array[Int],
    loads: Array[Double],
    load: Option[BatchLoad] = None
)

/** The lanes that a partition is to have: commands, growth and what becomes of hosts turn one into the next.
  *
  * @param lanes at home
  * @param auto whether they are left to laneshift: nobody has said how many
  * @param elsewhere how many more on which other executors
  * @param note why the newest of those that are not there is not
  * @param late how often a host was not ready when a batch began
  */
final case class LaneWish(
    lanes: Int,
    auto: Boolean,
    elsewhere: Map[HostAddress, Int] = Map.empty,
    note: Option[String] = None,
    late: Map[HostAddress, Int] = Map.empty
) {

  /** As somebody says; without `there` what is wanted on other executors stays so. */
  def said(count: Int, there: Option[Map[HostAddress, Int]]): LaneWish =
    there.fold(copy(lanes = count, auto = false))(LaneWish(count, auto = false, _))

  /** So many less on a host, which are asked for again only if somebody says so. */
  def less(host: HostAddress, fewer: Int, why: String): LaneWish =
    copy(elsewhere = elsewhere.updatedWith(host)(_.map(_ - fewer).filter(_ > 0)), note = Some(why))

  /** As it is when the partition comes to an executor: lanes that were wanted there would not be elsewhere. What has become of lanes
    * when the partition was here before is no news.
    */
  def movedTo(executorId: String, maxLanes: Int): LaneWish = {
    val (here, others) = elsewhere.partition(_._1.executorId == executorId)
    val forgotten = here.headOption.map { case (host, count) =>
      s"$host has the partition now: the $count lanes that were wanted there are forgotten"
    }
    LaneWish(math.min(lanes, maxLanes), auto, others, forgotten)
  }
}

/** What a partition's newest batch was bound by.
  *
  * @param isApart whether the row-wise work above its state was apart
  * @param rows that it had
  * @param hottest share of its rows that the hottest key had
  * @param busiest share of its time that the busiest lane worked on rows
  * @param lanes that it had or could have had
  */
final case class BatchLoad(
    batchId: Long,
    isApart: Boolean,
    rows: Long,
    rowsPerSecond: Double,
    hottest: Double,
    busiest: Double,
    lanes: Int
) {

  /** One key keeps it from using the lanes that it could have, and not by chance: of few rows any key has many. */
  def isNarrow: Boolean = (hottest - 2 * math.sqrt(hottest / math.max(1L, rows))) * lanes >= BatchLoad.Narrow

  /** Whether the driver has something to decide by it. */
  def matters: Boolean = isApart || isBound

  /** And that is what holds it up. */
  def isBound: Boolean = isNarrow && busiest >= BatchLoad.Full
}

object BatchLoad {

  /** Lanes' work that one key has, from which on it counts. */
  private val Narrow = 1.5
  private val Full = 0.8
}

/** An executor tells the driver what to remember. */
final case class RememberPartition(key: OperatorKey, index: Int, memory: PartitionMemory)

/** An executor asks the driver what it remembers; the answer is an `Option[PartitionMemory]` in bytes ([[RpcBytes]]). */
final case class RecallPartition(key: OperatorKey, index: Int)

/** The driver's memory of partitions, as an executor's process reaches it, and who wakes its autoscalers. Nothing depends on its
  * answers but lanes.
  */
private[laneshift] trait DriverMemory {

  /** Waits for nobody. */
  def remember(key: OperatorKey, index: Int, memory: PartitionMemory): Unit

  def recall(key: OperatorKey, index: Int): Option[PartitionMemory]

  /** A partition has become pressed. Waits for nobody. */
  def pressed(press: PartitionPressed): Unit

  /** As the driver calls this process. */
  def executorId: String
}

private[laneshift] final class PluginMemory(context: PluginContext) extends DriverMemory with Logging {
  override def executorId: String = context.executorID()

  override def remember(key: OperatorKey, index: Int, memory: PartitionMemory): Unit =
    attempt(())(context.send(RememberPartition(key, index, memory)))

  override def pressed(press: PartitionPressed): Unit =
    try context.send(press)
    catch {
      case NonFatal(error) => logDebug("The driver is not told of a partition that is pressed.", error)
    }

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
