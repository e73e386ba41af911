package org.apache.spark.sql.laneshift.spec

import org.apache.spark.sql.catalyst.expressions.Expression

/** An expression that calls itself not deterministic so that the optimiser leaves it where it is, although what it gives hangs on
  * its row alone: it may run on any lane.
  */
private[laneshift] trait KnowsOneRow { this: Expression => }
