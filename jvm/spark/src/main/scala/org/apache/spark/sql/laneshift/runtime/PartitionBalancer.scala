package org.apache.spark.sql.laneshift.runtime

import org.apache.spark.sql.laneshift.spec.ElasticOptions

import laneshift.ids.LaneId
import laneshift.lane.InletStats
import laneshift.planner._

/** Knows the loads of a partition's shards and decides which lane each should run on. The partition's lock guards it, except
  * for `cpuNs`.
  */
private[runtime] final class PartitionBalancer(
    options: ElasticOptions,
    clock: () => Long = () => System.nanoTime()
) {
  private val shards = options.shards
  private val planner: Planner = GreedyBalancer.triggered(options.threshold)
  private val tracker = new LoadTracker(shards, 4L * options.balanceIntervalMs * 1000000L)
  private var known = Option.empty[Array[Double]]
  private val interval = new Every(options.balanceIntervalMs * 1000000L)

  /** Until then a planner of key distribution decides; none if none has. */
  private var restsUntilNs = Option.empty[Long]

  /** For so long it moves no shard but to lanes that come and from lanes that go (docs/handoff.md, section 16). */
  def rest(seconds: Double): Unit =
    restsUntilNs = Option.when(seconds > 0)(clock() + (seconds * 1e9).toLong)

  private def balances: Boolean = options.balance && !restsUntilNs.exists(_ - clock() > 0)

  /** CPU time by shard, sampled by the lanes; written without synchronisation, each shard by the lane that owns it. */
  val cpuNs = new Array[Long](shards)

  /** As measured or, before that, as remembered from elsewhere. */
  def loads: Array[Double] = if (tracker.isWarm) tracker.loads else known.fold(tracker.loads)(_.clone())

  private def isWarm: Boolean = tracker.isWarm || known.nonEmpty

  /** What is known of the loads before anything is measured here. */
  def remember(loads: Array[Double]): Unit = if (loads.length == shards) known = Some(loads)

  /** Counters of rows begin at zero again with each inlet. */
  def newInlet(): Unit = if (!options.loadByCpu) tracker.restart()

  def update(offered: => Array[Long], nowNs: Long): Unit =
    tracker.update(if (options.loadByCpu) cpuNs.clone() else offered, nowNs)

  /** True once an interval; the next one begins. */
  def isDue(nowNs: Long): Boolean = interval.isDue(nowNs)

  /** The routing of a batch with `lanes` lanes that follows one with `routing`. */
  def route(routing: Array[Int], lanes: Int): Array[Int] = {
    val now = if (isWarm) loads else Array.fill(shards)(0.0)
    val fitted = Rerouting.fit(routing, now, lanes)
    if (balances && isWarm)
      planner.plan(now, fitted, lanes).foreach(m => fitted(m.shard.value) = m.to.value)
    fitted
  }

  /** What evens out the lanes' loads in the middle of a batch. */
  def even(stats: InletStats): Seq[ShardMove] =
    if (balances) plan(planner, tracker.loads, stats) else Nil

  /** What gives new lanes something to do at once: by load where it is known, else by number of shards. */
  def spread(stats: InletStats): Seq[ShardMove] = {
    val now = loads
    val planner = if (isWarm && now.sum > 0) this.planner else CountBalancer
    plan(planner, now, stats)
  }

  /** Planners number lanes without gaps; lanes on other executors have numbers of their own. */
  private def plan(planner: Planner, loads: Array[Double], stats: InletStats): Seq[ShardMove] = {
    val lanes = stats.active
    val places = stats.destinations.map { lane =>
      val found = java.util.Arrays.binarySearch(lanes, lane)
      if (found >= 0) found else lanes.length
    }
    planner.plan(loads, places, lanes.length).map { move =>
      move.copy(from = LaneId(stats.destinations(move.shard.value)), to = LaneId(lanes(move.to.value)))
    }
  }
}

/** Fits a routing table to another number of lanes between two batches. */
private object Rerouting {

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
