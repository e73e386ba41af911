package org.apache.spark.sql.laneshift.plan

import java.util.LinkedHashMap

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.WidenStatefulOpNullability
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.streaming.InternalOutputModes.Update
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.{
  GenericBufferAggregationIterator,
  StatefulStreamlineAggregateExec
}
import org.apache.spark.sql.execution.streaming.operators.stateful.StreamingAggregationStateManager
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.body.LaneContext
import org.apache.spark.util.CompletionIterator

/** Spark's row-at-a-time aggregation of Real-time Mode, in update mode, with a cache of dirty groups for each shard, which
  * goes along with its shard. Spark's own operator has one cache, which it writes to the store at the end of its input
  * (design fact 5), so a handoff would have to restart it.
  *
  * Schema checks, metrics, watermarks and the state's layout are inherited: to everybody else it is Spark's operator.
  */
class ElasticStreamlineAggregateExec(original: StatefulStreamlineAggregateExec)
    extends StatefulStreamlineAggregateExec(
      original.requiredChildDistributionExpressions,
      original.numShufflePartitions,
      original.groupingExpressions,
      original.aggregateExpressions,
      original.aggregateAttributes,
      original.initialInputBufferOffset,
      original.resultExpressions,
      original.isFinalAggregate,
      original.outputMode,
      original.stateFormatVersion,
      original.child,
      original.stateInfo,
      original.eventTimeWatermarkForLateEvents,
      original.eventTimeWatermarkForEviction
    ) {

  override def nodeName: String = "StatefulStreamlineAggregate"

  override protected def doExecute(): RDD[InternalRow] = {
    metrics // made on the driver
    val updated = longMetric("numUpdatedStateRows")
    val outputs = longMetric("numOutputRows")
    val removed = longMetric("numRemovedStateRows")
    val readForRemoval = longMetric("numRowsReadDuringEviction")
    val updateTime = longMetric("allUpdatesTimeMs")
    val removalTime = longMetric("allRemovalsTimeMs")
    val commitTime = longMetric("commitTimeMs")
    val keySchema = WidenStatefulOpNullability.widenStateSchema(keyExpressions.toStructType)
    val valueSchema = WidenStatefulOpNullability.widenStateSchema(stateManager.getStateValueSchema)

    child
      .execute()
      .mapPartitionsWithStateStore(
        getStateInfo,
        keySchema,
        valueSchema,
        NoPrefixKeyStateEncoderSpec(keySchema),
        session.sessionState,
        Some(session.streams.stateStoreCoordinator)
      ) { (store, input) =>
        val lane = LaneContext.get
        val groups = new DirtyGroups(lane, getStateInfo.operatorId, stateManager, store, updated)
        val aggregator = new ShardedAggregator(
          TaskContext.getPartitionId(),
          this,
          inputAttributes,
          stateManager,
          groups
        )
        val onTime =
          watermarkPredicateForDataForLateEvents.fold(input)(applyRemovingRowsOlderThanWatermark(input, _))
        val results = onTime.map { row =>
          outputs += 1
          aggregator.process(row, lane.fold(0)(_.currentShard))
        }
        CompletionIterator[InternalRow, Iterator[InternalRow]](
          results, {
            updateTime += timeTakenMs(groups.flush())
            removalTime += timeTakenMs {
              val evicted = stateManager.evictionIterator(store, eventTimeWatermarkForEviction)
              evicted.foreach(_ => ())
              removed += evicted.numRowsRemovedSoFar
              readForRemoval += evicted.numRowsReadDuringEvictionSoFar
            }
            commitTime += timeTakenMs(store.commit())
            setStoreMetrics(store)
            setOperatorMetrics()
          }
        )
      }
  }

  /** Plans are compared as Spark's: a copy by constructor arguments, as canonicalising makes, is not one of ours. */
  override protected def doCanonicalize(): SparkPlan = original.canonicalized

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan =
    new ElasticStreamlineAggregateExec(original.copy(child = newChild))
}

object ElasticStreamlineAggregateExec {

  /** True if this operator does all that the original would: Real-time Mode allows update mode only. */
  def canReplace(original: StatefulStreamlineAggregateExec, conf: SQLConf): Boolean =
    original.outputMode.contains(Update) &&
      conf.getConf(SQLConf.STREAMING_STATE_INCREMENTAL_CLEANUP_FACTOR) == 0

  def from(original: StatefulStreamlineAggregateExec, child: SparkPlan): SparkPlan =
    new ElasticStreamlineAggregateExec(original.copy(child = child))
}

/** Groups read from or to be written to the store, by shard and key. Each shard has an equal part of the bytes that the
  * partition may keep: what has no room there is written, the least recently used first.
  */
private[plan] final class DirtyGroups(
    lane: Option[LaneContext],
    operatorId: Long,
    states: StreamingAggregationStateManager,
    store: StateStore,
    updated: SQLMetric
) {
  private val ofShard =
    lane.fold(IndexedSeq(new ShardGroups))(_.perShard(operatorId, writeAll)(new ShardGroups))
  private val room = lane.flatMap(_.partition).fold(0L)(_.keptBytes(operatorId)) / ofShard.size

  /** The group's aggregation buffer, or null for a new key. */
  def get(key: UnsafeRow, shard: Int): UnsafeRow = {
    val row = ofShard(shard).get(key)
    if (row != null) row else states.get(store, key)
  }

  /** Keeps a copy of `row`; may write other groups of the shard to the store to make room. */
  def put(key: UnsafeRow, row: UnsafeRow, shard: Int): Unit = {
    val groups = ofShard(shard)
    groups.put(key, row)
    while (groups.bytes > room) write(groups.removeOldest())
  }

  /** Writes all groups of this lane's shards. */
  def flush(): Unit = lane.fold(Seq(0))(_.ownShards).foreach(shard => writeAll(ofShard(shard)))

  private def writeAll(groups: ShardGroups): Unit = while (!groups.isEmpty) write(groups.removeOldest())

  private def write(group: UnsafeRow): Unit = {
    states.put(store, group)
    updated += 1
  }
}

/** The groups of one shard, the least recently used first, and the bytes that they take. */
private[plan] final class ShardGroups {
  private val groups = new LinkedHashMap[UnsafeRow, UnsafeRow](16, 0.75f, true)
  private var held = 0L

  def bytes: Long = held
  def isEmpty: Boolean = groups.isEmpty
  def get(key: UnsafeRow): UnsafeRow = groups.get(key)

  /** Copies both. */
  def put(key: UnsafeRow, row: UnsafeRow): Unit = {
    val copy = row.copy()
    val before = groups.replace(key, copy)
    if (before != null) held += copy.getSizeInBytes - before.getSizeInBytes
    else {
      groups.put(key.copy(), copy)
      held += ShardGroups.size(key, copy)
    }
  }

  def removeOldest(): UnsafeRow = {
    val first = groups.entrySet().iterator()
    val entry = first.next()
    first.remove()
    held -= ShardGroups.size(entry.getKey, entry.getValue)
    entry.getValue
  }
}

private[plan] object ShardGroups {

  /** An entry of the map, two rows and their arrays, without their bytes. */
  private val Overhead = 176

  private def size(key: UnsafeRow, row: UnsafeRow): Int = Overhead + key.getSizeInBytes + row.getSizeInBytes
}

/** Merges rows into groups, one by one: Spark's aggregation functions over our cache of groups. */
private[plan] final class ShardedAggregator(
    partition: Int,
    plan: StatefulStreamlineAggregateExec,
    inputAttributes: Seq[Attribute],
    states: StreamingAggregationStateManager,
    groups: DirtyGroups
) extends GenericBufferAggregationIterator(
      partition,
      plan.groupingExpressions,
      inputAttributes,
      plan.aggregateExpressions,
      plan.aggregateAttributes,
      plan.initialInputBufferOffset,
      plan.resultExpressions,
      (expressions, schema) => MutableProjection.create(expressions, schema)
    ) {

  /** The group's new buffer; valid until the next call. */
  def process(row: InternalRow, shard: Int): UnsafeRow = {
    val key = groupingProjection(row)
    val buffer = newAggregationBuffer()
    val before = groups.get(key, shard)
    if (before != null) processRow(buffer, before)
    processRow(buffer, row)
    val after = generateOutput(key, buffer)
    groups.put(key, after, shard)
    after
  }

  override def hasNext: Boolean = throw new UnsupportedOperationException("rows are pushed, see process")
  override def next(): UnsafeRow = throw new UnsupportedOperationException("rows are pushed, see process")
}
