package laneshift.lane

/** A lane cannot begin to run, for want of a thread: nothing of it has begun. `why` is no cause of this: engines end the
  * process for an Error that they find among the causes.
  */
final class LaneNotStarted(message: String, why: Throwable) extends RuntimeException(message) {
  addSuppressed(why)
}
