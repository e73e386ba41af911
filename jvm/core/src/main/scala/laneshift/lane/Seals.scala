package laneshift.lane

import laneshift.ids.LaneId

/** The lanes' seals of one state store in one batch: the last one's is the store's commit (docs/handoff.md, section 6). The
  * store's own lock guards it.
  *
  * @param participants
  *   how many lanes seal, or 0 before the input has ended
  * @param failure
  *   why the partition has stopped, or null
  */
final class Seals(participants: () => Int, failure: () => Throwable) {
  private var sealedBy = List.empty[LaneId]

  /** A lane has written all it will write. True if the store is to be committed now. */
  def seal(lane: LaneId): Boolean = {
    val cause = failure()
    if (cause != null) throw new PartitionStopped(cause)
    val all = participants()
    if (all == 0) throw new IllegalStateException(s"lane ${lane.value} commits before the input has ended")
    if (sealedBy.contains(lane))
      throw new IllegalStateException(s"lane ${lane.value} commits twice: ${describe(all)}")
    sealedBy = lane :: sealedBy
    if (sealedBy.size > all) throw new IllegalStateException(describe(all))
    sealedBy.size == all
  }

  /** Lanes that have sealed. */
  def count: Int = sealedBy.size

  private def describe(all: Int): String =
    s"$all lanes share the store but these have committed: ${sealedBy.map(_.value).reverse.mkString(", ")}"
}
