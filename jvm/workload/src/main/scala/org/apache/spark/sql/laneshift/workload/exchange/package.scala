package org.apache.spark.sql.laneshift.workload

/** A stock exchange: limit orders are matched by price and time, and statistics follow each of them. Two stateful operators,
  * one behind the other, both by stock, in micro-batches and in Real-time Mode. `make bench ARGS=exchange` measures with it.
  *
  * That a Transactor matches orders and feeds statistics and alarms, all by stock, is the application of Elasticutor, 2019.
  * What each of them reckons, and how, is ours: the paper does not say, and its orders are not to be had.
  *
  * Below Spark's package with the workload source, whose row cost it pays.
  */
package object exchange
