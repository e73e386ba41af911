package org.apache.spark.sql.laneshift.plan

import java.util.{LinkedHashMap, Map => JMap}

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
import org.apache.spark.sql.laneshift.lane.LaneContext
import org.apache.spark.util.CompletionIterator

/** Spark's row-at-a-time aggregation of Real-time Mode, in update mode, with a cache of dirty groups that can be flushed
  * shard by shard. Spark's own operator writes its cache to the store only at the end of its input (design fact 5), so a
  * handoff would have to restart it.
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
        val groups = new DirtyGroups(stateManager, store, updated)
        val aggregator = new ShardedAggregator(
          TaskContext.getPartitionId(),
          this,
          inputAttributes,
          stateManager,
          groups
        )
        val lane = LaneContext.get
        lane.foreach(_.onRecall(shard => groups.flush(shard)))
        val onTime =
          watermarkPredicateForDataForLateEvents.fold(input)(applyRemovingRowsOlderThanWatermark(input, _))
        val results = onTime.map { row =>
          outputs += 1
          aggregator.process(row, lane.fold(0)(_.currentShard))
        }
        CompletionIterator[InternalRow, Iterator[InternalRow]](
          results, {
            updateTime += timeTakenMs(groups.flushAll())
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

/** Groups read from or to be written to the store, by key, least recently used first. Bounded by `capacity` groups. */
private[plan] final class DirtyGroups(
    states: StreamingAggregationStateManager,
    store: StateStore,
    updated: SQLMetric
) {
  private final class Group(val shard: Int, var row: UnsafeRow)

  private val groups = new LinkedHashMap[UnsafeRow, Group](1024, 0.75f, true)

  /** The group's aggregation buffer, or null for a new key. */
  def get(key: UnsafeRow): UnsafeRow = {
    val group = groups.get(key)
    if (group != null) group.row else states.get(store, key)
  }

  /** Keeps a copy of `row`; may write another group to the store to make room. */
  def put(key: UnsafeRow, row: UnsafeRow, shard: Int): Unit = {
    val group = groups.get(key)
    if (group != null) group.row = row.copy()
    else {
      groups.put(key.copy(), new Group(shard, row.copy()))
      if (groups.size > DirtyGroups.Capacity) {
        val oldest = groups.entrySet().iterator()
        write(oldest.next())
        oldest.remove()
      }
    }
  }

  def flush(shard: Int): Unit = {
    val all = groups.entrySet().iterator()
    while (all.hasNext) {
      val entry = all.next()
      if (entry.getValue.shard == shard) {
        write(entry)
        all.remove()
      }
    }
  }

  def flushAll(): Unit = {
    groups.entrySet().forEach(write(_))
    groups.clear()
  }

  private def write(entry: JMap.Entry[UnsafeRow, Group]): Unit = {
    states.put(store, entry.getValue.row)
    updated += 1
  }
}

private[plan] object DirtyGroups {
  val Capacity = 1000
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
    val before = groups.get(key)
    if (before != null) processRow(buffer, before)
    processRow(buffer, row)
    val after = generateOutput(key, buffer)
    groups.put(key, after, shard)
    after
  }

  override def hasNext: Boolean = throw new UnsupportedOperationException("rows are pushed, see process")
  override def next(): UnsafeRow = throw new UnsupportedOperationException("rows are pushed, see process")
}
