package org.apache.spark.sql.laneshift.api

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.{FunctionIdentifier, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.conf.ControlConf
import org.apache.spark.sql.laneshift.driver.DriverState
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

/** `SELECT * FROM laneshift_control()`: address, port and token of the session that asks, from its configuration; no row if no
  * port is set.
  *
  * Spark Connect hides entries whose name has "token" in it from its clients. A table function, since its rows are a local
  * relation: the token is in no plan's text, and no job has to find a free core.
  */
object ControlFunction {
  val Name = "laneshift_control"

  private val Info = new ExpressionInfo(
    ControlFunction.getClass.getName.stripSuffix("$"),
    null,
    Name,
    "_FUNC_() - Returns where the control service listens, and this session's token.",
    "",
    "",
    "",
    "table_funcs",
    "",
    "",
    "built-in"
  )

  def register(extensions: SparkSessionExtensions): Unit =
    extensions.injectTableFunction((FunctionIdentifier(Name), Info, _ => relation(SQLConf.get)))

  private def relation(conf: SQLConf): LogicalPlan = {
    val output = Seq("address", "port", "token").map(AttributeReference(_, StringType, nullable = false)())
    val port = conf.getConf(ControlConf.Port)
    val rows = DriverState.get.filter(_ => port != ControlConf.NoPort).toSeq.map { driver =>
      driver.tenants.welcome(conf)
      val values = Seq(conf.getConf(ControlConf.Address), port.toString, conf.getConf(ControlConf.Token).get)
      InternalRow.fromSeq(values.map(UTF8String.fromString))
    }
    LocalRelation(output, rows)
  }
}
