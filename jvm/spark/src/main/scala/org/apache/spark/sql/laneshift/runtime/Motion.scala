package org.apache.spark.sql.laneshift.runtime

import scala.util.Random
import scala.util.hashing.MurmurHash3

import org.apache.spark.sql.laneshift.spec.OperatorSpec

/** The fault mode's choices for one partition, from its seed: which shards move, and when the number of lanes changes; none if it is off.
  * The choices are repeatable; when they are asked for is up to threads. The partition's lock guards it.
  */
private[laneshift] final class Motion(spec: OperatorSpec, partition: Int) {
  private val options = spec.options.motion
  private val always = options.mode == "always"
  private val turns = new Every(options.intervalMs * 1000000L)

  // A hash, because generators with seeds next to each other begin alike: partitions would all do the same.
  private val random = new Random(
    MurmurHash3.orderedHash(Seq(options.seed, spec.key.operatorId, spec.batchId, partition))
  )

  def isOn: Boolean = options.mode != "never"

  /** Whether it changes something now, besides what the receiver's rows drive. */
  def isDue(nowNs: Long): Boolean = isOn && turns.isDue(nowNs)

  /** Rows between two moves that the receiver makes. */
  def everyRows: Int = if (always) 37 else 499

  private def chance(ifAlways: Double, ifRandom: Double): Boolean =
    isOn && random.nextDouble() < (if (always) ifAlways else ifRandom)

  /** A new number of lanes, now and then. */
  def lanes(): Option[Int] = Option.when(chance(0.1, 0.02))(1 + random.nextInt(spec.options.maxLanes))

  /** A new number of lanes that are reached over the network, now and then. */
  def remoteLanes(): Option[Int] =
    Option.when(options.remoteLanes > 0 && chance(0.02, 0.005))(random.nextInt(options.remoteLanes + 1))

  /** How many of them a batch begins with, if the mode is to have any. */
  def remoteAtStart(): Option[Int] =
    Option.when(isOn && options.remoteLanes > 0)(remoteLanes().getOrElse(options.remoteLanes))

  /** Shards and the lanes they should go to. */
  def moves(shards: Int, lanes: Int): Seq[(Int, Int)] =
    if (lanes < 2 || !chance(1.0, 0.3)) Nil
    else Seq.fill(if (always) 1 + random.nextInt(3) else 1)((random.nextInt(shards), random.nextInt(lanes)))
}
