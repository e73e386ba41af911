package org.apache.spark.sql.laneshift.runtime

/** Something that may not pay, such as more lanes: it begins, is judged once it has warmed up, and stays if it has paid. If it has not,
  * it may begin again after a rest, which doubles each time, six times at most. Times are any numbers that grow: batches, nanoseconds.
  * Its owner's lock guards it.
  *
  * @param warmUp the time from its beginning until it can be judged
  * @tparam B what was measured before it began, to compare it with
  */
private[laneshift] final class Trial[B](warmUp: Long, firstRest: Long) {
  private var running = Option.empty[(Long, B)]
  private var proven = false
  private var notBefore = Long.MinValue
  private var refusals = 0

  def mayBegin(now: Long): Boolean = now >= notBefore
  def isRunning: Boolean = running.nonEmpty
  def isProven: Boolean = proven

  /** What was before, as soon as it runs. */
  def begun: Option[B] = running.map(_._2)

  /** What was before; none while it warms up, or if it does not run. */
  def before(now: Long): Option[B] = running.collect { case (since, was) if now - since >= warmUp => was }

  def begin(now: Long, before: B): Unit = running = Some(now -> before)

  def paid(): Unit = {
    proven = true
    refusals = 0
  }

  /** It has not paid, and rests until the time that this says. */
  def refuse(now: Long): Long = {
    notBefore = now + (firstRest << math.min(refusals, Trial.Doublings))
    refusals += 1
    end()
    notBefore
  }

  /** Ends without a verdict. */
  def end(): Unit = {
    running = None
    proven = false
  }
}

private[laneshift] object Trial {

  /** Where batches are compared, less of a gain than this is none, and what did not pay rests so many first. */
  val Worth = 1.1
  val FirstRest = 16L
  private val Doublings = 6
}
