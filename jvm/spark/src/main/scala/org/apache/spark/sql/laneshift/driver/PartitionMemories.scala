package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.sql.laneshift.runtime.{BatchLoad, PartitionMemory}
import org.apache.spark.sql.laneshift.spec.{EndedRuns, OperatorKey}
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent

/** What executors have told of their partitions, by operator: for whichever executor computes one next. Ends with the run. */
private[laneshift] final class PartitionMemories extends SparkListener {
  private val byOperator = new ConcurrentHashMap[OperatorKey, ConcurrentHashMap[Int, PartitionMemory]]

  private val ended = new EndedRuns

  /** Of two, that of the later batch stays. */
  def remember(key: OperatorKey, index: Int, memory: PartitionMemory): Unit = synchronized {
    if (!ended.has(key.runId)) {
      byOperator
        .computeIfAbsent(key, _ => new ConcurrentHashMap[Int, PartitionMemory])
        .merge(index, memory, (old, now) => if (now.batchId >= old.batchId) now else old)
    }
    ()
  }

  def recall(key: OperatorKey, index: Int): Option[PartitionMemory] =
    Option(byOperator.get(key)).flatMap(partitions => Option(partitions.get(index)))

  /** What partitions of an operator have told of the newest batches for which they had something to tell. */
  def batchLoads(runId: String, operatorId: Long): Map[Int, BatchLoad] = {
    for {
      (key, partitions) <- byOperator.asScala if key.runId == runId && key.operatorId == operatorId
      (index, memory) <- partitions.asScala
      load <- memory.load
    } yield index -> load
  }.toMap

  /** Lanes of an operator's partitions that are wanted on other executors, by these. */
  def elsewhere(runId: String, operatorId: Long): Map[String, Int] = {
    for {
      (key, partitions) <- byOperator.asScala.toSeq if key.runId == runId && key.operatorId == operatorId
      memory <- partitions.values.asScala.toSeq
      (host, lanes) <- memory.wish.elsewhere
    } yield host.executorId -> lanes
  }.groupMapReduce(_._1)(_._2)(_ + _)

  def knows(key: OperatorKey): Boolean = byOperator.containsKey(key)

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case over: QueryTerminatedEvent =>
      synchronized {
        ended.add(over.runId.toString)
        byOperator.keySet().removeIf(_.runId == over.runId.toString)
        ()
      }
    case _ => ()
  }
}
