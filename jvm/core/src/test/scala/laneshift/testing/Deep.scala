package laneshift.testing

import org.scalatest.{Suite, SuiteMixin, Tag}

/** A room of the deep tier. A test with such a tag is none of the gate's: it is one more case of what the gate has some of, or its
  * outcome hangs on the clock or on the machine. `make deep ROOM=...` runs it.
  */
sealed abstract class Deep(val room: String) extends Tag(s"laneshift.deep.$room") {

  /** The tag for all but the chosen ones of a suite's cases, which are the gate's. */
  def unless(chosen: Boolean): Seq[Tag] = if (chosen) Nil else Seq(this)
}

object Deep {

  /** More queries, formats and numbers of tasks beside stock Spark than the gate has; the sources of test rows. */
  case object Pairs extends Deep("pairs")

  /** Lanes, shards and handoffs whose moment is up to timers, threads and what was measured of a running query. */
  case object Motion extends Deep("motion")

  /** What acts on a query that runs, by what it measures: lanes by themselves, planners, limits, rescales. */
  case object Policies extends Deep("policies")

  /** Lanes on other executors: more pairs, and hosts that fall silent, fail and go away. */
  case object Remote extends Deep("remote")

  /** Tasks, batches and take-overs that are killed, at more moments than the gate has. */
  case object Kills extends Deep("kills")

  /** Races on real threads, where one may be lost that schedules explored on one thread do not show. */
  case object Mutants extends Deep("mutants")

  /** Rates, time-outs, pauses and whatever else is measured in seconds. */
  case object Speed extends Deep("speed")

  val all: Seq[Deep] = Seq(Pairs, Motion, Policies, Remote, Kills, Mutants, Speed)

  private val names = all.map(_.name).toSet

  /** Whether this run is of the deep tier. */
  val isAsked: Boolean = sys.env.get("LANESHIFT_DEEP").exists(_.nonEmpty)

  def isDeep(tags: Set[String]): Boolean = tags.exists(names)
}

/** A suite all of whose tests are of one room. */
trait DeepSuite extends SuiteMixin { self: Suite =>
  def room: Deep

  abstract override def tags: Map[String, Set[String]] = {
    val own = super.tags
    testNames.map(test => test -> (own.getOrElse(test, Set.empty) + room.name)).toMap
  }
}
