package laneshift.ids

/** A fixed slice of an elastic partition's key subspace: the unit that moves. Counted from 0 within its partition. */
final case class ShardId(value: Int) extends AnyVal

/** A thread on one core that runs the operator over the shards it owns. Counted from 0 within its partition. */
final case class LaneId(value: Int) extends AnyVal

/** A version of a routing table: each change makes the next one. */
final case class Epoch(value: Long) extends AnyVal {
  def next: Epoch = Epoch(Math.incrementExact(value))
}

object Epoch {
  val first: Epoch = Epoch(0L)

  implicit val ordering: Ordering[Epoch] = Ordering.by(_.value)
}
