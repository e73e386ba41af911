package laneshift.lane

/** What `take` gives a lane. */
sealed trait Taken[+R]

/** What is next for a remote lane's thread. */
sealed trait TakenRemote[+R]

object Taken {
  final case class Rows[R](block: RowBlock[R]) extends Taken[R] with TakenRemote[R]

  /** A shard of this lane is wanted elsewhere: see [[Inlet.letGo]]. */
  case object Recall extends Taken[Nothing] with TakenRemote[Nothing]

  /** These shards have come to the lane; their first rows are still to be taken. */
  final case class Arrived(shards: Seq[Int]) extends TakenRemote[Nothing]

  /** Somebody has called [[HomeEnd.poke]]. */
  case object Poked extends TakenRemote[Nothing]

  /** What follows is of the next input. */
  case object NextInput extends Taken[Nothing] with TakenRemote[Nothing]
  case object End extends Taken[Nothing] with TakenRemote[Nothing]
}

/** A shard that its lane is to give up; to a lane on another executor if it `leaves`. */
final case class Recalled(shard: Int, leaves: Boolean)

/** Rows that a lane has taken and not worked on: those of `block` from `from` on. */
final case class Remainder[R](block: RowBlock[R], from: Int)
