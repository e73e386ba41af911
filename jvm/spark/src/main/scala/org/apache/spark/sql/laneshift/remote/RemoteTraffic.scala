package org.apache.spark.sql.laneshift.remote

import java.util.concurrent.atomic.LongAdder

/** Counts of a process's sessions with lanes on other executors, since it began. */
private[laneshift] final class RemoteTraffic {
  val rowsSent, frames, stateReads, lostHosts, bytesSent, bytesReceived = new LongAdder
}
