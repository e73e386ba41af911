package org.apache.spark.sql.laneshift.api

import org.apache.spark.sql.laneshift.rescale.{LiveRescale, OfflineRescaled}

/** Rescales in the words of the Python side. */
private[api] object RescaleJson {
  def apply(r: LiveRescale): Map[String, Any] = Map(
    "from" -> r.from,
    "to" -> r.to,
    "state" -> r.state.name,
    "ended" -> r.state.ended,
    "failure" -> r.failure,
    "stores_written" -> r.progress._1,
    "stores" -> r.progress._2,
    "lag_batches" -> r.lag,
    "batch_id" -> r.batch,
    "pause_ms" -> r.pauseMs
  )

  def apply(r: OfflineRescaled): Map[String, Any] = Map(
    "batch_id" -> r.batch,
    "from" -> r.from,
    "to" -> r.to,
    "rows" -> r.rows,
    "build_ms" -> r.buildMs,
    "check_ms" -> r.checkMs,
    "take_over_ms" -> r.takeOverMs
  )
}
