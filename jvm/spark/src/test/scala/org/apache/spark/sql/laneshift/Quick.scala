package org.apache.spark.sql.laneshift

import org.scalatest.Tag

/** Tests that `make quick` runs, too: what catches most mistakes, one pair for each family of operators. */
object Quick extends Tag("laneshift.Quick") {

  /** The tag for some of a suite's cases. */
  def when(chosen: Boolean): Seq[Tag] = if (chosen) Seq(Quick) else Nil
}
