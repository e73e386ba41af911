package org.apache.spark.sql.laneshift.source

import org.apache.spark.sql.connector.read.streaming.SparkDataStream

/** A source that can be held back in Real-time Mode: its readers ask the [[RowPace]] of their query's run before each row. */
private[laneshift] trait PacedSource extends SparkDataStream
