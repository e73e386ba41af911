package org.apache.spark.sql.laneshift.plan

import org.apache.spark.sql.catalyst.encoders.AgnosticEncoder
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoders.{
  ProductEncoder,
  TransformingEncoder,
  UDTEncoder
}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.types.{DataType, StructType, TimestampType}

/** transformWithState keys its state not by what was shuffled but by the user's object made of it, encoded again. A state
  * row's shard is found again only if both have the same bytes.
  */
private[plan] object KeyEncoding {

  /** Why `writer` cannot be elastic on account of its key; none if it can. */
  def refusal(writer: StateStoreWriter): Option[String] = writer match {
    case t: TransformWithStateExec =>
      val shuffled = DataTypeUtils.fromAttributes(t.groupingAttributes)
      val encoded = t.keyEncoder.schema
      if (!same(shuffled, encoded))
        Some(s"its key is shuffled as ${shuffled.catalogString} but kept as ${encoded.catalogString}")
      else if (!isPlain(t.keyEncoder.encoder))
        Some("its key has an encoding of its own, which need not give the same bytes twice")
      else None
    case t: TransformWithStateInPySparkExec if t.groupingAttributes.exists(a => hasTime(a.dataType)) =>
      // An hour of each year has two meanings as a local time.
      Some("its key has a timestamp, which Python's local time need not give back as it was")
    case _ => None
  }

  /** A key of one field has a name of its own; those of more are told apart by their names. */
  private def same(shuffled: StructType, encoded: StructType): Boolean =
    if (shuffled.size == 1 && encoded.size == 1)
      DataType.equalsIgnoreNullability(shuffled.head.dataType, encoded.head.dataType)
    else DataType.equalsIgnoreNullability(shuffled, encoded)

  private def isPlain(encoder: AgnosticEncoder[_]): Boolean = encoder match {
    case _: TransformingEncoder[_, _] | _: UDTEncoder[_] => false
    case p: ProductEncoder[_] => p.fields.forall(f => isPlain(f.enc))
    case _ => true
  }

  private def hasTime(dataType: DataType): Boolean = dataType.existsRecursively(_ == TimestampType)
}
