package org.apache.spark.sql.laneshift

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.laneshift.api.ControlFunction
import org.apache.spark.sql.laneshift.conf.{ControlConf, LaneshiftConf}
import org.apache.spark.sql.laneshift.driver.DriverState
import org.apache.spark.sql.laneshift.plan.ElasticPlanRule
import org.apache.spark.sql.laneshift.rescale.TakeOver

/** The session extension that the plugin appends: the plan rule, and what a session's control needs. */
class LaneshiftExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectColumnar((_: SparkSession) =>
      new ColumnarRule {
        override def postColumnarTransitions: Rule[SparkPlan] = ElasticPlanRule
      }
    )
    ControlFunction.register(extensions)
    extensions.injectResolutionRule { (session: SparkSession) =>
      welcome(session)
      RepairOnStart
    }
  }

  /** Gives a session of a Spark Connect server its token before it makes its first plan. */
  private def welcome(session: SparkSession): Unit = {
    val conf = session.sessionState.conf
    if (conf.getConf(ControlConf.Port) != ControlConf.NoPort)
      DriverState.get.foreach(_.tenants.welcome(conf))
  }

  /** A query is about to start: what a killed take-over has left in its checkpoint would keep it from it. */
  private object RepairOnStart extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = {
      plan match {
        case query: WriteToStream if conf.getConf(LaneshiftConf.Enabled) =>
          TakeOver.repair(query.resolvedCheckpointLocation, SparkSession.active)
        case _ => ()
      }
      plan
    }
  }
}
