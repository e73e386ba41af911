package laneshift.planner

import laneshift.ids.{LaneId, ShardId}

final case class ShardMove(shard: ShardId, from: LaneId, to: LaneId)

/** Decides which shard runs on which lane of one elastic partition. Pure: same loads, same plan.
  *
  * `loads(s)` is the load of shard s in any unit that adds up (rows/s, CPU seconds per second), never negative; `owner(s)`
  * its lane, which may be one of the lanes `lanes` and up that are being retired. Each shard is moved at most once.
  */
trait Planner {
  def plan(loads: Array[Double], owner: Array[Int], lanes: Int): Seq[ShardMove]
}

/** The greedy balancer of the paper notes, elasticutor.md 3.2 [D] (derived; the paper's own section is missing): while the
  * busiest lane exceeds `threshold` times the average, move the heaviest of its shards that is lighter than the gap to the
  * least busy lane. Ties go to the lowest id.
  *
  * The caveat there about a hot shard is closed in two ways [ours]: shards heavier than the average lane move only if no
  * lighter one can, and a move must lower the higher of the two lanes by at least `minGain` of the average, so that a shard
  * that is a lane's whole load is not carried to and fro.
  */
final class GreedyBalancer(threshold: Double, minGain: Double = 0.02, target: Double = Double.MaxValue)
    extends Planner {
  require(threshold > 1.0, s"threshold must be above 1.0, not $threshold")
  require(target > 1.0, s"target must be above 1.0, not $target")
  require(minGain >= 0.0 && minGain < 1.0, s"minGain must be in 0..1, not $minGain")

  override def plan(loads: Array[Double], owner: Array[Int], lanes: Int): Seq[ShardMove] = {
    val now = owner.clone()
    val load = new Array[Double](lanes)
    // Shards of lanes that are being retired are on their way elsewhere: they are not this planner's.
    now.indices.foreach(s => if (now(s) < lanes) load(now(s)) += loads(s))
    val average = load.sum / lanes
    if (average > 0 && lanes > 1 && load.max > threshold * average) {
      val enough = math.min(threshold, target) * average
      var goOn = true
      while (goOn) {
        val high = load.indices.maxBy(i => (load(i), -i))
        val low = load.indices.minBy(i => (load(i), i))
        val gap = load(high) - load(low)
        val shard =
          if (load(high) <= enough) -1
          else {
            val gain = minGain * average
            val light = heaviest(loads, now, high, math.min(gap - gain, average), gap, gain)
            if (light >= 0) light else heaviest(loads, now, high, gap - gain, gap, gain)
          }
        if (shard < 0) goOn = false
        else {
          now(shard) = low
          load(high) -= loads(shard)
          load(low) += loads(shard)
        }
      }
    }
    now.indices.collect {
      case s if now(s) != owner(s) => ShardMove(ShardId(s), LaneId(owner(s)), LaneId(now(s)))
    }
  }

  /** The heaviest shard of `lane` of at least `least` and at most `most`, lighter than the gap; -1 if there is none. */
  private def heaviest(
      loads: Array[Double],
      owner: Array[Int],
      lane: Int,
      most: Double,
      gap: Double,
      least: Double
  ): Int = {
    var best = -1
    var s = 0
    while (s < owner.length) {
      val load = loads(s)
      val fits = owner(s) == lane && load > 0 && load >= least && load <= most && load < gap
      if (fits && (best < 0 || load > loads(best))) best = s
      s += 1
    }
    best
  }
}

object GreedyBalancer {

  /** Moves nothing below the threshold, and once above it goes on to a quarter of the way [ours]. */
  def triggered(threshold: Double): GreedyBalancer =
    new GreedyBalancer(threshold, minGain = 0.01, target = 1.0 + (threshold - 1.0) / 4)
}

/** Evens out the number of shards per lane: what to do when lanes were added and no load is known. */
object CountBalancer extends Planner {
  override def plan(loads: Array[Double], owner: Array[Int], lanes: Int): Seq[ShardMove] =
    new GreedyBalancer(
      threshold = 1.0 + 1e-9,
      minGain = 0.0
    ).plan(Array.fill(owner.length)(1.0), owner, lanes)
}
