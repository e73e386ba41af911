package org.apache.spark.sql.laneshift.runtime

import scala.util.Random
import scala.util.hashing.MurmurHash3

import org.apache.spark.sql.laneshift.spec.OperatorSpec

import laneshift.planner.GreedyBalancer

/** The fault mode's choices for one partition, from its seed: which shards move, and when the number of lanes changes. The
  * choices are repeatable; when they are asked for is up to threads.
  */
private[laneshift] final class Motion(spec: OperatorSpec, partition: Int) {
  private val options = spec.options
  private val always = options.motion == "always"

  // A hash, because generators with seeds next to each other begin alike: partitions would all do the same.
  private val random = new Random(
    MurmurHash3.orderedHash(Seq(options.motionSeed, spec.key.operatorId, spec.batchId, partition))
  )

  def isOn: Boolean = options.motion != "never"

  /** Rows between two moves that the receiver makes. */
  def everyRows: Int = if (always) 37 else 499

  /** A new number of lanes, now and then. */
  def lanes(): Option[Int] =
    if (random.nextDouble() < (if (always) 0.1 else 0.02)) Some(1 + random.nextInt(options.maxLanes))
    else None

  /** A new number of lanes that are reached over the network, now and then. */
  def remoteLanes(): Option[Int] =
    if (options.motionRemote > 0 && random.nextDouble() < (if (always) 0.02 else 0.005))
      Some(random.nextInt(options.motionRemote + 1))
    else None

  /** Shards and the lanes they should go to. */
  def moves(shards: Int, lanes: Int): Seq[(Int, Int)] =
    if (lanes < 2 || random.nextDouble() >= (if (always) 1.0 else 0.3)) Nil
    else Seq.fill(if (always) 1 + random.nextInt(3) else 1)((random.nextInt(shards), random.nextInt(lanes)))
}

/** Fits a routing table to another number of lanes between two batches. */
private[laneshift] object Rerouting {

  /** Shards of lanes that are no more go, heaviest first, to the lane with the least load, then the fewest shards. */
  def fit(routing: Array[Int], loads: Array[Double], lanes: Int): Array[Int] = {
    val result = routing.clone()
    val load = new Array[Double](lanes)
    val count = new Array[Int](lanes)
    result.indices.foreach { s =>
      if (result(s) < lanes) {
        load(result(s)) += loads(s)
        count(result(s)) += 1
      }
    }
    result.indices.filter(result(_) >= lanes).sortBy(s => (-loads(s), s)).foreach { s =>
      val to = (0 until lanes).minBy(l => (load(l), count(l), l))
      result(s) = to
      load(to) += loads(s)
      count(to) += 1
    }
    // Lanes that are new: whoever asked for them wants them to work. Shards without a known load count a little.
    if (count.exists(_ == 0)) {
      val little = math.max(loads.sum / loads.length, 1.0) / 100
      new GreedyBalancer(threshold = 1.05)
        .plan(loads.map(_ + little), result, lanes)
        .foreach(m => result(m.shard.value) = m.to.value)
    }
    result
  }
}
