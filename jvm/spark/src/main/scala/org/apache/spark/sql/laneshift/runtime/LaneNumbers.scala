package org.apache.spark.sql.laneshift.runtime

import laneshift.lane.InletStats

/** How lanes are numbered for everybody outside: from 0 without gaps, first those that shards may come to, then those that still have
  * some to give away. Inside, a lane on another executor has a number of its own, behind all that may be here.
  */
private[runtime] final class LaneNumbers(ids: Array[Int]) {

  /** The number inside of a lane, or one that no lane has. */
  def id(shown: Int): Int = if (ids.indices.contains(shown)) ids(shown) else LaneNumbers.NoLane

  def shown(id: Int): Int = ids.indexOf(id)

  /** What is known by number inside. */
  def show[T: reflect.ClassTag](byId: Array[T], none: T): Array[T] =
    ids.map(id => if (id < byId.length) byId(id) else none)
}

private[runtime] object LaneNumbers {

  /** A number that no lane has. */
  private val NoLane = 1 << 20

  def of(stats: InletStats): LaneNumbers =
    new LaneNumbers((stats.active ++ stats.routing.distinct.sorted.filterNot(stats.active.contains)).toArray)

  def first(lanes: Int): LaneNumbers = new LaneNumbers(Array.range(0, lanes))
}
