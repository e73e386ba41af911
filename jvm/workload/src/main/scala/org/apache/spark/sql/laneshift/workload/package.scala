package org.apache.spark.sql.laneshift

/** The workload source and the row cost: what tests and benchmarks feed to an elastic query, and what they
  * make its rows cost.
  *
  * In Spark's package because the source keeps its start in Spark's metadata log and asks for the classic
  * session, and the cost is a Catalyst expression that is registered by Spark's extensions; the rest is here
  * to stay together.
  */
package object workload
