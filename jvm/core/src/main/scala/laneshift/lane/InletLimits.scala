package laneshift.lane

/** Bounds of one partition's buffers: the lanes that it may have here, numbered from 0, and on other executors, numbered behind
  * them.
  *
  * @param queueTime what waits for a lane is at most what it got rid of in so much time
  */
final case class InletLimits(
    maxLanes: Int,
    queueBytes: Long,
    remoteLanes: Int = 0,
    queueTime: Option[QueueTime] = None
) {

  /** Lanes of either kind. */
  def slots: Int = maxLanes + remoteLanes

  /** Bytes of rows that all queues of the partition, those for lanes elsewhere included, hold together before the receiver
    * waits. One row more at most, and what lanes that had taken rows give back of them in a handoff: at most one block per
    * lane here, and what is kept for one elsewhere.
    */
  def totalBytes: Long = maxLanes * queueBytes
}
