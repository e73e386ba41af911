package org.apache.spark.sql.execution.streaming.state

import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, GetStructField}
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.StateStoreColumnFamilySchemaUtils
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.timers.TimerStateUtils
import org.apache.spark.sql.types.StructType

/** Where the keys of transformWithState's column families have the grouping key. */
private[state] object GroupingKey {

  /** The fields to go down from a state row's key to the grouping key; none if it is the key. */
  def path(family: String, encoders: LaneEncoders): Seq[Int] =
    if (TimerStateUtils.isTimerCFName(family)) {
      // (time, key) or (key, time)
      if (TimerStateUtils.isTimerSecondaryIndexCF(family)) Seq(1) else Seq(0)
    } else if (StateStoreColumnFamilySchemaUtils.isTtlColFamilyName(family)) {
      // (time, key of the variable's own family)
      1 +: path(StateStoreColumnFamilySchemaUtils.getStateNameFromTtlColFamily(family), encoders)
    } else
      encoders(family).schema.keySpec match {
        // A map: (key, the user's key)
        case _: PrefixKeyScanStateEncoderSpec => Seq(0)
        case _ => Nil
      }

  /** Field `ordinal` of what is at `path` in rows of `key`. */
  def field(key: StructType, path: Seq[Int], ordinal: Int): Expression = {
    val steps = path :+ ordinal
    val first: Expression = BoundReference(steps.head, key(steps.head).dataType, key(steps.head).nullable)
    steps.tail.foldLeft(first)((struct, i) => GetStructField(struct, i))
  }
}
