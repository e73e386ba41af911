package org.apache.spark.sql.laneshift.body

/** The state of a lane that runs away from home: there its stores are open, here is what it has written and not yet sent. */
private[sql] trait RemoteState {

  /** Bytes of writes that are to go home. */
  def pendingBytes: Int

  /** The writes since the last call, for home to do; forgotten here. Asked for between two rows, and sent home before
    * anything that is asked of home later.
    */
  def takeWrites(): Array[Byte]

  /** These shards have come to this lane, and have been elsewhere before: what is known here of their keys is void. */
  def arrived(shards: Seq[Int]): Unit
}
