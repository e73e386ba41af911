package laneshift.lane

import laneshift.ids.LaneId

object LetGo {

  /** The lane gives up every shard that is recalled; `block` (or null) is what it has taken and worked on up to row `at`. */
  def all[R](inlet: Inlet[R], lane: LaneId, block: RowBlock[R], at: Int, noticedNs: Long): Unit = {
    val taken = Option(block).map(Remainder(_, at)).toSeq
    inlet.letGo(lane, taken, noticedNs, inlet.recalls(lane).map(_.shard))
  }
}
