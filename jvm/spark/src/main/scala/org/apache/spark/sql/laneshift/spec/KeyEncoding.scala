package org.apache.spark.sql.laneshift.spec

import org.apache.spark.sql.catalyst.encoders.AgnosticEncoder
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoders._
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.{AppendColumnsExec, AppendColumnsWithObjectExec, SparkPlan}
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.types.{DataType, DoubleType, FloatType, StringType, StructType, TimestampType}

/** transformWithState keys its state not by what was shuffled but by the user's object made of it, encoded again. A state
  * row's shard is found again only if both have the same bytes.
  */
private[laneshift] object KeyEncoding {

  /** Why `writer` cannot be elastic on account of its key; none if it can. */
  def refusal(writer: StateStoreWriter): Option[String] = writer match {
    case t: TransformWithStateExec =>
      val shuffled = DataTypeUtils.fromAttributes(t.groupingAttributes)
      val encoded = t.keyEncoder.schema
      if (!same(shuffled, encoded))
        Some(s"its key is shuffled as ${shuffled.catalogString} but kept as ${encoded.catalogString}")
      else if (!isPlain(t.keyEncoder.encoder))
        Some("its key has an encoding of its own, which need not give the same bytes twice")
      else if (t.groupingAttributes.exists(a => has(a, StringType) && !isEncoded(t, a)))
        // Bytes that are no UTF-8 are all kept as one character.
        Some("its key has a text that is no object's: name it by groupByKey")
      else None
    case t: TransformWithStateInPySparkExec if t.groupingAttributes.exists(has(_, TimestampType)) =>
      // An hour of each year has two meanings as a local time.
      Some("its key has a timestamp, which Python's local time need not give back as it was")
    case t: TransformWithStateInPySparkExec
        if t.groupingAttributes.exists(a => has(a, FloatType) || has(a, DoubleType)) =>
      // pandas has one value for both.
      Some("its key has a fraction, of which Python does not tell null and NaN apart")
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
    case r: RowEncoder => r.fields.forall(f => isPlain(f.enc))
    case b: JavaBeanEncoder[_] => b.fields.forall(f => isPlain(f.enc))
    case o: OptionEncoder[_] => isPlain(o.elementEncoder)
    case a: ArrayEncoder[_] => isPlain(a.element)
    case i: IterableEncoder[_, _] => !isSet(i.clsTag.runtimeClass) && isPlain(i.element)
    case _ => true
  }

  /** Without an order of its own, and of several equal elements it keeps one. */
  private def isSet(kind: Class[_]): Boolean =
    classOf[scala.collection.Set[_]].isAssignableFrom(kind) ||
      classOf[java.util.Set[_]].isAssignableFrom(kind)

  /** Whether groupByKey has made a key's field, of an object. */
  private def isEncoded(plan: SparkPlan, field: Attribute): Boolean = plan.exists {
    case a: AppendColumnsExec => a.serializer.exists(_.exprId == field.exprId)
    case a: AppendColumnsWithObjectExec => a.newColumnsSerializer.exists(_.exprId == field.exprId)
    case _ => false
  }

  private def has(field: Attribute, kind: DataType): Boolean = field.dataType.existsRecursively {
    case _: StringType => kind == StringType
    case other => other == kind
  }
}
