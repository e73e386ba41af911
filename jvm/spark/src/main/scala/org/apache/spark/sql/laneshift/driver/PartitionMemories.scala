package org.apache.spark.sql.laneshift.driver

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.laneshift.runtime.PartitionMemory
import org.apache.spark.sql.laneshift.spec.OperatorKey

/** What executors have told of their partitions, by operator: for whichever executor computes one next. */
private[laneshift] object PartitionMemories {
  private val byOperator = new ConcurrentHashMap[OperatorKey, ConcurrentHashMap[Int, PartitionMemory]]

  /** Of two, that of the later batch stays. */
  def remember(key: OperatorKey, index: Int, memory: PartitionMemory): Unit = {
    byOperator
      .computeIfAbsent(key, _ => new ConcurrentHashMap[Int, PartitionMemory])
      .merge(index, memory, (old, now) => if (now.batchId >= old.batchId) now else old)
    ()
  }

  def recall(key: OperatorKey, index: Int): Option[PartitionMemory] =
    Option(byOperator.get(key)).flatMap(partitions => Option(partitions.get(index)))

  def knows(key: OperatorKey): Boolean = byOperator.containsKey(key)

  /** The run has ended. */
  def forget(runId: String): Unit = { byOperator.keySet().removeIf(_.runId == runId); () }
}
