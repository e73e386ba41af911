package org.apache.spark.sql.laneshift.runtime

import java.util.ArrayDeque
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.laneshift.spec.OperatorKey

import laneshift.lane.InletStats

/** Rows that a partition's task has read and put out in its batch, and the time that its lanes have worked, at one moment. */
private[runtime] final case class Passed(atNs: Long, rowsIn: Long, rowsOut: Long, busyNs: Long)

/** Tells when a partition of Real-time Mode has more rows to work on than its lanes can, because more come than did in the last seconds,
  * by more than chance explains (docs/decisions/0022). One look every [[Pressure.EveryNs]]; the partition's lock guards it.
  */
private[runtime] final class Pressure(key: OperatorKey, index: Int) {
  import Pressure._

  private val looks = new ArrayDeque[Passed]
  private var quietUntilNs = Long.MinValue

  /** A batch begins: rows are counted from zero, and those of the pause before it come at once. */
  def begin(): Unit = looks.clear()

  /** What the driver is to be told: a partition whose lanes are full with rows of which more come than did. */
  def turn(nowNs: Long, session: Session, meter: PartitionMeter): Option[PartitionPressed] =
    if (!looks.isEmpty && nowNs - looks.peekLast.atNs < EveryNs) None
    else {
      val now = meter.passed(nowNs, session)
      look(now).filter(isFull(_, now, session.stats)).map { from =>
        told(nowNs)
        pressed(from, now, session.stats, meter.counts(session, session.stats))
      }
    }

  private def pressed(
      from: Passed,
      now: Passed,
      stats: Option[InletStats],
      counts: Counts
  ): PartitionPressed = {
    val came = now.rowsIn - from.rowsIn
    PartitionPressed(
      key,
      index,
      now.atNs - from.atNs,
      counts.rowsIn - came,
      // Of lanes with threads it is known from now on only how long they work on what.
      counts.laneRows.sum - (if (stats.isEmpty) came else 0L),
      counts.rowsOut - (now.rowsOut - from.rowsOut),
      counts.busyNs.sum - (if (stats.isEmpty) now.busyNs - from.busyNs else 0L),
      counts.blockedNs
    )
  }

  /** Whether its lanes have more than they can do: without a queue the only one works all the time, else rows wait. */
  private def isFull(from: Passed, now: Passed, stats: Option[InletStats]): Boolean =
    stats.fold(now.busyNs - from.busyNs >= Full * (now.atNs - from.atNs)) { s =>
      s.queueRows.sum >= Waiting * (now.rowsIn - from.rowsIn)
    }

  /** The begin of the shortest span up to now in which more has come; none if none has. */
  def look(now: Passed): Option[Passed] = {
    looks.addLast(now)
    while (now.atNs - looks.peekFirst.atNs > KeptNs) looks.removeFirst()
    if (now.atNs < quietUntilNs) None
    else Spans.iterator.flatMap(begin(now, _)).find(from => isMore(from, now))
  }

  /** It was told: the same is not told again at once, and from then on it is what came in the last seconds. */
  private def told(nowNs: Long): Unit = quietUntilNs = nowNs + QuietNs

  /** The newest look that is at least so long ago, if there are looks of a while before it. */
  private def begin(now: Passed, spanNs: Long): Option[Passed] =
    looks.descendingIterator.asScala.find(now.atNs - _.atNs >= spanNs)
      .filter(_.atNs - looks.peekFirst.atNs >= LeastBeforeNs)

  private def isMore(from: Passed, now: Passed): Boolean = {
    val first = looks.peekFirst
    val spanNs = now.atNs - from.atNs
    val came = now.rowsIn - from.rowsIn
    val usual = (from.rowsIn - first.rowsIn).toDouble * spanNs / (from.atNs - first.atNs)
    came >= LeastRows && came - usual >= Sure * math.sqrt(usual) && came >= Least * mostBefore(from, spanNs)
  }

  /** The most rows that came in a span before the one before `begin`, in which the rise may have begun: who sends rows in bursts has
    * bursts there, too.
    */
  private def mostBefore(begin: Passed, spanNs: Long): Long = {
    val all = looks.asScala.takeWhile(_.atNs <= begin.atNs - spanNs).toArray
    var (from, most) = (0, 0L)
    all.indices.foreach { to =>
      while (from < to && all(to).atNs - all(from + 1).atNs >= spanNs) from += 1
      if (all(to).atNs - all(from).atNs >= spanNs) most = math.max(most, all(to).rowsIn - all(from).rowsIn)
    }
    most
  }
}

private[runtime] object Pressure {
  private def ms(n: Long): Long = TimeUnit.MILLISECONDS.toNanos(n)

  private val EveryNs: Long = ms(25)

  /** Spans that are held against what came before: a jump is seen in a short one, a small step needs a long one. */
  private val Spans = Seq(ms(100), ms(200), ms(400))

  /** What came before is that of so long, and nothing is told before there is so much of it. */
  private val KeptNs = ms(5000)
  private val LeastBeforeNs = ms(1000)

  /** By so many standard deviations of a Poisson count more must have come, at least so many rows, and so many times the most
    * before.
    */
  private val Sure = 6.0
  private val LeastRows = 16L
  private val Least = 1.2

  /** So long nothing is told again. */
  private val QuietNs = ms(1000)

  /** A partition without a queue is full if its lane works for this part of the span. */
  private val Full = 0.9

  /** One with queues is, if this part of the rows that came waits there. */
  private val Waiting = 0.5
}

/** An executor tells the driver: so many more rows come to a partition than before that its lanes are full. The counters, since the query
  * started, are those at the begin of the span; it ends now.
  */
final case class PartitionPressed(
    key: OperatorKey,
    index: Int,
    spanNs: Long,
    rowsIn: Long,
    rowsTaken: Long,
    rowsOut: Long,
    busyNs: Long,
    blockedNs: Long
)
