package org.apache.spark.sql.laneshift.plan

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec

/** Spark's operator, which accepts our state store provider: Spark's own checks for its name on the conf from which the store
  * is opened (design fact 14). Nothing else differs, elastic or not. Not equal to the original: a plan keeps what equals its
  * replacement.
  */
final class ElasticTransformWithStateExec(original: TransformWithStateExec)
    extends TransformWithStateExec(
      original.keyDeserializer,
      original.valueDeserializer,
      original.groupingAttributes,
      original.dataAttributes,
      original.statefulProcessor,
      original.timeMode,
      original.outputMode,
      original.keyEncoder,
      original.outputObjAttr,
      original.stateInfo,
      original.batchTimestampMs,
      original.prevBatchTimestampMs,
      original.eventTimeWatermarkForLateEvents,
      original.eventTimeWatermarkForEviction,
      original.child,
      original.isStreaming,
      original.isRealTimeMode,
      original.hasInitialState,
      original.initialStateGroupingAttrs,
      original.initialStateDataAttrs,
      original.initialStateDeserializer,
      original.initialState
    ) {
  override def nodeName: String = "TransformWithState"
  override protected def validateStateStoreProvider(isStreaming: Boolean): Unit = ()
  override protected def doCanonicalize(): SparkPlan = copy().canonicalized
  override def canEqual(other: Any): Boolean = other.isInstanceOf[ElasticTransformWithStateExec]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode(): Int = super.hashCode()
  override protected def withNewChildrenInternal(left: SparkPlan, right: SparkPlan): TransformWithStateExec =
    new ElasticTransformWithStateExec(super.withNewChildrenInternal(left, right))
}

/** The same for Python's. */
final class ElasticTransformWithStateInPySparkExec(original: TransformWithStateInPySparkExec)
    extends TransformWithStateInPySparkExec(
      original.functionExpr,
      original.groupingAttributes,
      original.output,
      original.outputMode,
      original.timeMode,
      original.stateInfo,
      original.batchTimestampMs,
      original.prevBatchTimestampMs,
      original.eventTimeWatermarkForLateEvents,
      original.eventTimeWatermarkForEviction,
      original.userFacingDataType,
      original.child,
      original.isStreaming,
      original.hasInitialState,
      original.initialState,
      original.initialStateGroupingAttrs,
      original.initialStateSchema
    ) {
  override def nodeName: String = "TransformWithStateInPySpark"
  override protected def validateStateStoreProvider(isStreaming: Boolean): Unit = ()
  override protected def doCanonicalize(): SparkPlan = copy().canonicalized
  override def canEqual(other: Any): Boolean = other.isInstanceOf[ElasticTransformWithStateInPySparkExec]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode(): Int = super.hashCode()
  override protected def withNewChildrenInternal(
      left: SparkPlan,
      right: SparkPlan
  ): TransformWithStateInPySparkExec =
    new ElasticTransformWithStateInPySparkExec(super.withNewChildrenInternal(left, right))
}
