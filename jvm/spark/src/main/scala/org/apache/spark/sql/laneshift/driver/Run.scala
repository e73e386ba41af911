package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.laneshift.rescale.LiveRescale
import org.apache.spark.sql.laneshift.runtime.{BatchLoad, PartitionMemory}
import org.apache.spark.sql.laneshift.spec.TaskWish
import org.apache.spark.sql.streaming.StreamingQueryProgress

/** What a run of a query is called: by the query's id, its own, and the query's name if it has one. */
final case class RunName(id: String, runId: String, name: Option[String]) {

  /** Whether a user means it by the id `query`, which nobody chooses. */
  def isId(query: String): Boolean = id == query || runId == query

  /** Whether a user means it by `query`. */
  def is(query: String): Boolean = isId(query) || name.contains(query)
}

/** Rows that sources have given since the run began; in micro-batch those of the batches up to `batchId`. */
final case class SourceCount(rows: Long, batchId: Option[Long])

/** The driver's side of one run of a query: all that is known of it, wanted of it and under way with it, and that ends with it.
  *
  *   - [[Runs]] makes it, as the run's first batch is planned or when Spark tells of its start, whichever is first, and drops it when
  *     Spark tells of its end. From then on nobody finds it: what executors tell of it late, or somebody wants of it, changes nothing.
  *   - It is used by the query's thread (plans), RPC threads (what executors tell and ask), the gateway's threads (wishes), Spark's
  *     listener queue (batches, the end) and the look's thread. Nothing in here waits for any of them.
  *   - Operators are named by their ids.
  *
  * @param note tells the tab and the log of a policy's what it has decided by itself
  * @param look begins looks at executors, which go on as long as [[needsLooks]]
  * @param nowNs a clock that only goes forward (ns)
  */
private[laneshift] final class Run(
    val names: RunName,
    val note: (String, String) => Unit = (_, _) => (),
    look: () => Unit = () => (),
    private[driver] val nowNs: () => Long = () => System.nanoTime()
) {
  def id: String = names.id
  def runId: String = names.runId
  def name: Option[String] = names.name

  @volatile private[driver] var ended = false
  def active: Boolean = !ended

  /** As Spark has it; none if it is just ending. */
  def execution: Option[StreamExecution] = RunningQueries.get(id).filter(_.runId.toString == runId)

  /** Whose session has started it on a Spark Connect server: known from its first plan on. */
  @volatile private[driver] var ofTenant = Option.empty[String]
  def tenant: Option[String] = ofTenant

  // ---- batches: told by Spark's listener queue

  @volatile private var newest = Option.empty[BatchView]
  @volatile private var readSoFar = Option.empty[SourceCount]

  /** The newest that has ended. */
  def batch: Option[BatchView] = newest

  /** What it has read of its sources in all that have ended. */
  def read: Option[SourceCount] = readSoFar

  private[driver] def progressed(p: StreamingQueryProgress): Unit = {
    newest = Some(BatchView.of(p))
    // Spark also reports while it waits, under the number of a batch to come.
    if (p.durationMs.containsKey("addBatch"))
      readSoFar = Some(SourceCount(readSoFar.fold(0L)(_.rows) + p.numInputRows, Some(p.batchId)))
  }

  // ---- what executors have told of its partitions, for whichever computes one next

  private val memories = new ConcurrentHashMap[(Long, Int), PartitionMemory]

  /** Of two, that of the later batch stays. */
  def remember(operatorId: Long, index: Int, memory: PartitionMemory): Unit = {
    memories.merge((operatorId, index), memory, (old, now) => if (now.batchId >= old.batchId) now else old)
    ()
  }

  /** A batch of it begins, with so many partitions: those that it does not have any more are nobody's. Called by the query's thread.
    */
  def begins(operatorId: Long, partitions: Int): Unit = {
    memories.keySet.removeIf { case (id, index) => id == operatorId && index >= partitions }
    ()
  }

  def recall(operatorId: Long, index: Int): Option[PartitionMemory] =
    Option(memories.get((operatorId, index)))

  private def memoriesOf(operatorId: Long): Iterator[(Int, PartitionMemory)] =
    memories.asScala.iterator.collect { case ((`operatorId`, index), memory) => index -> memory }

  def knows(operatorId: Long): Boolean = memoriesOf(operatorId).nonEmpty

  /** What partitions of an operator have told of the newest batches for which they had something to tell. */
  def batchLoads(operatorId: Long): Map[Int, BatchLoad] =
    memoriesOf(operatorId).flatMap { case (index, memory) => memory.load.map(index -> _) }.toMap

  /** Lanes of an operator's partitions that are wanted on other executors, by these. */
  def elsewhere(operatorId: Long): Map[String, Int] =
    memoriesOf(operatorId).flatMap(_._2.wish.elsewhere).toSeq
      .groupMapReduce(_._1.executorId)(_._2)(_ + _)

  private[driver] def wantsElsewhere: Boolean = memories.values.asScala.exists(_.wish.elsewhere.nonEmpty)

  // ---- what somebody wants of its operators from the next batch on

  private val wishes = new ConcurrentHashMap[Long, TaskWish]

  /** In how many tasks an operator's partitions are wanted, if somebody has said so. */
  def tasks(operatorId: Long): Option[TaskWish] = Option(wishes.get(operatorId))

  def setTasks(operatorId: Long, wish: TaskWish): Unit = { wishes.put(operatorId, wish); () }

  /** By operator, whether a planner of key distribution wants row-wise work above its state apart, and until when (ns). */
  private val claims = new ConcurrentHashMap[Long, (Option[Boolean], Long)]

  /** For `seconds` a planner decides, instead of the option and of what executors tell (docs/handoff.md, section 16). It replaces
    * what was said before.
    *
    * @param apart none: as it would be without a planner
    */
  def claimKeys(operatorId: Long, apart: Option[Boolean], seconds: Double): Unit = {
    claims.put(operatorId, (apart, nowNs() + (seconds * 1e9).toLong))
    ()
  }

  /** What is claimed now of an operator's next batch. */
  def claimedApart(operatorId: Long): Option[Boolean] =
    Option(claims.get(operatorId)).filter(_._2 - nowNs() > 0).flatMap(_._1)

  // ---- what planning keeps from batch to batch: only the query's thread is there

  /** Why the run stays stock Spark for good, because its executors keep the stores that they have opened. */
  @volatile var stays = Option.empty[String]

  private val stages = mutable.Map.empty[AnyRef, Long]

  /** The number of a stage without state, the same in every batch; `place` says which it is. Behind those of stateful operators. */
  def stage(place: AnyRef): Long = synchronized(stages.getOrElseUpdate(place, Run.FirstStage + stages.size))

  private val trials = new ConcurrentHashMap[Long, AnyRef]

  /** What is tried of an operator; `first` is what it begins with. */
  def trial[T <: AnyRef](operatorId: Long)(first: => T): T =
    trials.computeIfAbsent(operatorId, _ => first).asInstanceOf[T]

  // ---- what is under way

  @volatile private var elastic = false

  /** Whether a plan of it has had an elastic operator. */
  def isElastic: Boolean = elastic

  def becomesElastic(): Unit = if (!elastic) {
    elastic = true
    look()
  }

  @volatile private var held = Option.empty[HeldSource]

  /** What holds its source back; [[SourceThrottle]] sets it, under this object's lock. */
  private[driver] def heldSource: Option[HeldSource] = held

  private[driver] def hold(source: Option[HeldSource]): Unit = {
    held = source
    if (source.nonEmpty) look()
  }

  private[driver] def needsLooks: Boolean = elastic || held.nonEmpty

  @volatile private[driver] var newestRescale = Option.empty[LiveRescale]

  /** Its newest one. */
  def rescale: Option[LiveRescale] = newestRescale

  private[driver] def end(): Unit = {
    ended = true
    rescale.foreach { r =>
      r.cancel()
      r.letGo()
    }
  }

  override def toString: String = s"run $runId"
}

private object Run {
  val FirstStage = 1000L
}
