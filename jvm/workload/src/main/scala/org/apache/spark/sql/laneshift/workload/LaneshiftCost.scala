package org.apache.spark.sql.laneshift.workload

import java.util.Locale

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{TypeCheckFailure, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions.{BinaryExpression, Expression, ImplicitCastInputTypes}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.laneshift.spec.KnowsOneRow
import org.apache.spark.sql.types.{AbstractDataType, AnyDataType, DataType, DoubleType}

/** `laneshift_cost(value, micros[, mode])`: the value, after `micros` microseconds were spent on it as
  * [[RowCost]] says. A null cost is none.
  *
  * Declared not deterministic, which keeps the optimiser from evaluating it twice, from merging it with an
  * equal one and from moving it below an aggregate or a shuffle. It has no state to initialise, hence not
  * Spark's `Nondeterministic`. A result that no one reads is pruned like any other column, and then costs
  * nothing.
  */
case class LaneshiftCost(value: Expression, micros: Expression, mode: String)
    extends BinaryExpression
    with ImplicitCastInputTypes
    with KnowsOneRow {

  private lazy val modeIndex = RowCost.Modes.indexOf(mode.toLowerCase(Locale.ROOT))

  override lazy val deterministic: Boolean = false
  override def foldable: Boolean = false
  override def nullable: Boolean = value.nullable
  override def dataType: DataType = value.dataType
  override def left: Expression = value
  override def right: Expression = micros
  override def inputTypes: Seq[AbstractDataType] = Seq(AnyDataType, DoubleType)
  override def prettyName: String = WorkloadFunctions.Cost
  override def sql: String = s"$prettyName(${value.sql}, ${micros.sql}, '$mode')"

  override def checkInputDataTypes(): TypeCheckResult =
    if (modeIndex < 0)
      TypeCheckFailure(
        s"The argument 'mode' of $prettyName is '$mode', but must be a literal, " +
          s"one of ${RowCost.Modes.mkString(", ")}. Leave it out for spin."
      )
    else
      super.checkInputDataTypes() match {
        case TypeCheckSuccess if micros.foldable && micros.dataType == DoubleType => checkConstant()
        case other => other
      }

  private def checkConstant(): TypeCheckResult = micros.eval() match {
    case cost: Double if !RowCost.allowed(cost) => TypeCheckFailure(RowCost.refusal(cost))
    case _ => TypeCheckSuccess
  }

  override def eval(input: InternalRow): Any = {
    val result = value.eval(input)
    val cost = micros.eval(input)
    if (cost != null) RowCost.spend(cost.asInstanceOf[Double], modeIndex)
    result
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val result = value.genCode(ctx)
    val cost = micros.genCode(ctx)
    val helper = RowCost.getClass.getName.stripSuffix("$")
    val code = code"""
      |${result.code}
      |${cost.code}
      |if (!${cost.isNull}) {
      |  $helper.spend(${cost.value}, $modeIndex);
      |}""".stripMargin
    ev.copy(code = code, isNull = result.isNull, value = result.value)
  }

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): LaneshiftCost =
    copy(value = newLeft, micros = newRight)
}
