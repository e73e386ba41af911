package org.apache.spark.sql.laneshift.kills

import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.apache.spark.sql.laneshift.RescaleRun
import org.apache.spark.sql.laneshift.rescale.{LiveRescale, NotRescalable, RescaleState}
import org.apache.spark.sql.streaming.StreamingQuery

/** Asks for another number of state partitions as soon as there is one that was asked for. */
private[kills] final class Rescaled(random: Random) {
  private val asked = ArrayBuffer.empty[LiveRescale]

  def again(query: StreamingQuery): Unit =
    if (query.isActive)
      try { asked += RescaleRun.ask(query, 1 + random.nextInt(Most)); () }
      catch {
        // One is under way, there are as many already, or no batch has ended yet.
        case _: NotRescalable => ()
      }

  def done: Int = asked.count(_.state == RescaleState.Done)

  def failed: Seq[String] = asked.toSeq.filter(_.state == RescaleState.Failed).map(_.words)

  private val Most = 6
}
