package org.apache.spark.sql.laneshift.runtime

import java.util.concurrent.TimeUnit

/** Chooses the lanes of one partition while its batch runs, where the query leaves them to laneshift and shards may move between two
  * rows: idle cores while its lanes have more than they can do, and fewer when it has done with less for a while. What did not
  * make it faster is given back, and tried again less and less often. Its time is that in which the partition works: batches that
  * follow each other are one, whatever is between them.
  *
  * The partition's lock guards it; each turn is one sample of what the lanes did.
  */
private[runtime] final class LaneGrowth(cores: Cores, maxLanes: Int, pace: LaneGrowth.Pace) {
  import LaneGrowth._

  /** Rows that lanes had taken, and when: the newest are of the last span, and one before them. */
  private val seen = new java.util.ArrayDeque[Seen]
  private val trial = new Trial[Before](pace.trialNs, FirstRestNs)
  private var tooMany = 0
  private var mostNeeded = 0
  private var neededSinceNs = Long.MinValue

  /** For how long it has worked, by samples that follow each other; the last of these, if it has not rested since. */
  private var workedNs = 0L
  private var sampledNs = Option.empty[Long]

  private val batches = new WholeBatches

  /** Rows that were taken between samples that do not follow each other. */
  private var unseen = 0L
  private var allRows = 0L
  private var hasRested = false
  private var lastLanes = 1

  /** The lanes of the partition, which is at work, have taken so many rows since it is known; what waits for them is not among these,
    * or a source that has much to give would look like a fast lane. Comes before its turn.
    */
  def saw(nowNs: Long, rows: Long): Unit = {
    sampledNs match {
      case Some(before) =>
        workedNs += nowNs - before
        batches.sampled(nowNs - before)
      case None => unseen += rows - allRows
    }
    sampledNs = Some(nowNs)
    allRows = rows
    seen.addLast(Seen(workedNs, rows - unseen))
    while (seen.size > 2 && workedNs - second.atNs >= pace.spanNs) seen.removeFirst()
  }

  /** The lanes that a batch begins with which may be like the last one: as it had, or more, as far as there are cores, and work for
    * each. Once a batch has all its rows it gets no more lanes, and that may be before anything is known of it: so more are tried
    * here, too, and judged by whole batches that have had them.
    *
    * @param lanes those that are wanted
    * @param last the last batch that had rows
    * @param part its part of the process's cores
    */
  def atStart(lanes: Int, last: Option[BatchRecord], part: Int): Int = {
    last.filter(batches.add).foreach { batch =>
      // It has not got them.
      if (batch.isWhole && trial.begun.exists(_.lanes >= batch.lanes)) trial.end()
    }
    val kept = judged.getOrElse(lanes)
    val worth = last.fold(0L)(_.busyNs / pace.worthNs)
    val most =
      math.max(1L, math.min(math.min(part, 1 + cores.idle).toLong, math.min(maxLanes.toLong, worth))).toInt
    val isKnown = batches.lanes == kept && batches.count >= Warm
    if (isKnown && kept < most && !cores.areExhausted && !isTrying && trial.mayBegin(triedNs)) {
      trial.begin(triedNs, Before(kept, batches.rowsPerS))
      most
    } else math.min(kept, most)
  }

  /** The lanes from before a trial, if whole batches say that it has not paid. The first of them start threads, and Python's processes
    * with all that they import.
    */
  private def judged: Option[Int] =
    trial.begun.filter(_.lanes < batches.lanes).flatMap { was =>
      val paid = isWorth(batches.rowsPerS, was, batches.lanes)
      val refused = !paid && batches.count >= Chances
      if (paid) {
        trial.paid()
        trial.end()
      } else if (refused) trial.refuse(triedNs)
      Option.when(refused)(was.lanes)
    }

  private def isWorth(rowsPerS: Double, was: Before, lanes: Int): Boolean =
    rowsPerS >= was.rows * (1 + Gain * (lanes.toDouble / was.lanes - 1))

  /** The time of trials. */
  private def triedNs: Long = workedNs + batches.unsampledNs

  /** Whether lanes are tried, and it is not known yet what they bring. */
  def isTrying: Boolean = trial.isRunning

  private def second: Seen = { val all = seen.iterator; all.next(); all.next() }

  /** Rows per second over the last span; none yet if it has not seen as long. */
  private def rate: Option[Double] = {
    val tookNs = if (seen.isEmpty) 0L else seen.peekLast.atNs - seen.peekFirst.atNs
    Option.when(tookNs >= pace.spanNs * Whole)((seen.peekLast.rows - seen.peekFirst.rows) * 1e9 / tookNs)
  }

  /** The lanes from now on.
    *
    * @param lanes those that it has
    * @param busy how many of them were busy, in lanes: 1.5 of two
    * @param worth whether what is left of the batch is worth more lanes
    */
  def turn(lanes: Int, busy: Double, worth: Boolean): Int = {
    // A batch that begins without the lanes that were tried says nothing of them.
    if (hasRested && trial.begun.exists(_.lanes >= lanes)) trial.end()
    if (hasRested && lanes != lastLanes) while (seen.size > 1) seen.removeFirst()
    hasRested = false
    lastLanes = lanes
    val full = busy >= Full * lanes
    val hungry = full && worth && trial.mayBegin(triedNs)
    cores.want(this, lanes, hungry)
    givenBack(lanes).getOrElse(trial.before(triedNs) match {
      case None if trial.isRunning => lanes
      case Some(was) if full && rate.exists(!isWorth(_, was, lanes)) =>
        trial.refuse(triedNs)
        was.lanes
      case tried =>
        if (tried.nonEmpty) trial.paid()
        trial.end()
        rate.filter(_ => hungry).fold(released(lanes, busy))(grown(lanes, _))
    })
  }

  /** The lanes from now on, if others need the cores of some; asked once a sample. */
  def givenBack(lanes: Int): Option[Int] = {
    tooMany = if (cores.idle < 0 && lanes > 1) tooMany + 1 else 0
    val fair = cores.fair
    Option.when(tooMany >= 2 || lanes > fair) {
      trial.end()
      math.min(lanes - 1, fair)
    }
  }

  private def grown(lanes: Int, rows: Double): Int = {
    neededSinceNs = Long.MinValue
    val more = math.min(maxLanes - lanes, cores.share)
    if (more > 0) trial.begin(triedNs, Before(lanes, rows))
    lanes + math.max(0, more)
  }

  private def released(lanes: Int, busy: Double): Int = {
    if (neededSinceNs == Long.MinValue) {
      neededSinceNs = workedNs
      mostNeeded = 1
    }
    mostNeeded = math.max(mostNeeded, math.ceil(busy / Comfortable).toInt)
    if (workedNs - neededSinceNs < ReleaseNs) lanes
    else {
      neededSinceNs = Long.MinValue
      math.min(lanes, mostNeeded)
    }
  }

  /** The partition does not work any more, or all its rows are there, or lanes start: it wants no more than so many. */
  def rest(lanes: Int = 1): Unit = {
    cores.want(this, lanes, more = false)
    sampledNs = None
    hasRested = true
  }
}

private[runtime] object LaneGrowth {
  private final case class Seen(atNs: Long, rows: Long)
  private final case class Before(lanes: Int, rows: Double)

  /** What rates are measured over, how long lanes are tried before it is asked what they have brought, and the work of a batch that is
    * worth a lane.
    */
  final case class Pace(spanNs: Long, trialNs: Long, worthNs: Long)

  object Pace {
    val Rows: Pace = Pace(500 * Ms, 1500 * Ms, OperatorWork.WorthNs.toLong)

    /** Rows come in by deals of about a second, and functions in Python start. */
    val Ahead: Pace = Pace(3000 * Ms, 5000 * Ms, 1000 * Ms)
  }

  private val Ms = TimeUnit.MILLISECONDS.toNanos(1)

  /** Batches until more lanes are tried: the first may have been slow because everything was cold. */
  private val Warm = 2

  /** Batches in which lanes may show what they bring. */
  private val Chances = 3

  /** Samples come a little early or late: so much of a span is one. */
  private val Whole = 0.9

  /** Lanes that are busy for this part of the time have more than they can do. */
  val Full = 0.9

  /** Lanes are given back down to where they would be busy for this part of the time. */
  val Comfortable = 0.7

  /** So long fewer must have been enough. */
  val ReleaseNs: Long = TimeUnit.SECONDS.toNanos(10)

  /** The least that twice the lanes have to bring, of what they could. */
  val Gain = 0.25

  /** The first rest after lanes that brought nothing. */
  val FirstRestNs: Long = TimeUnit.SECONDS.toNanos(30)
}
