package org.apache.spark.sql.laneshift

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.laneshift.plan.ElasticPlanRule
import org.apache.spark.sql.laneshift.workload.WorkloadFunctions

/** The session extension that the plugin appends: the plan rule and the functions of the workload. */
class LaneshiftExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectColumnar((_: SparkSession) =>
      new ColumnarRule {
        override def postColumnarTransitions: Rule[SparkPlan] = ElasticPlanRule
      }
    )
    WorkloadFunctions.register(extensions)
  }
}
