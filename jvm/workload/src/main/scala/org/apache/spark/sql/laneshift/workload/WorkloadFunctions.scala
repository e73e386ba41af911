package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo, Literal}
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.types.StringType

/** Makes the SQL functions known to every session of an application that has this jar. Spark finds it by its name in the jar. */
class WorkloadExtensions extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = WorkloadFunctions.register(extensions)
}

/** The SQL functions that come with the workload source. */
object WorkloadFunctions {

  val Cost = "laneshift_cost"

  private val CostInfo = new ExpressionInfo(
    classOf[LaneshiftCost].getName,
    null,
    Cost,
    "_FUNC_(value, micros[, mode]) - Returns `value` after spending `micros` microseconds on it.",
    s"\n    Arguments:\n      * value - any expression; returned as it is" +
      s"\n      * micros - a number from 0 to ${RowCost.MaxMicros.toLong}; null spends nothing" +
      s"\n      * mode - a literal, one of ${RowCost.Modes.mkString(", ")}; spin if left out\n  ",
    "\n    Examples:\n      > SELECT _FUNC_(7, 1000, 'wait');\n       7\n  ",
    "",
    "misc_funcs",
    "",
    "",
    "scala_udf"
  )

  /** Makes the functions known to every session that these extensions belong to. */
  def register(extensions: SparkSessionExtensions): Unit =
    extensions.injectFunction((FunctionIdentifier(Cost), CostInfo, cost))

  private def cost(arguments: Seq[Expression]): Expression = arguments match {
    case Seq(value, micros) => LaneshiftCost(value, micros, RowCost.Modes.head)
    case Seq(value, micros, Literal(mode, _: StringType)) if mode != null =>
      LaneshiftCost(value, micros, mode.toString)
    case Seq(value, micros, mode) => LaneshiftCost(value, micros, mode.sql) // its type check refuses it
    case _ => throw QueryCompilationErrors.wrongNumArgsError(Cost, Seq(2, 3), arguments.length)
  }
}
