package org.apache.spark.sql.laneshift.rescale

/** Why a query or checkpoint does not get another number of partitions: found before anything of it was changed. */
private[laneshift] sealed abstract class NotRescalable(message: String) extends RuntimeException(message)

private[laneshift] object NotRescalable {

  /** The number itself. */
  final class BadNumber(val partitions: Int, val now: Option[Int])
      extends NotRescalable(
        s"Found $partitions; wanted 1 or more" + now.fold(".")(n =>
          s", and another number than the $n of now."
        )
      )

  /** What is to get it. */
  final class Unfit(val why: String)
      extends NotRescalable(s"It cannot get another number of partitions: $why.")

  /** Another one is under way. */
  final class Busy(val to: Int)
      extends NotRescalable(s"A rescale to $to partitions is under way: wait for it, or cancel it.")
}
