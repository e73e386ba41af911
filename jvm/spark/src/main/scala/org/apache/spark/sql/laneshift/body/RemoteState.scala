package org.apache.spark.sql.laneshift.body

/** The state of a lane that runs away from home: there its stores are open, here is what it has written and not yet sent. */
private[sql] trait RemoteState {

  /** Bytes of writes that are to go home. */
  def pendingBytes: Int

  /** Gives `send` the writes since the last call, for home to do, and forgets them here. Whatever is asked of home later, on
    * any thread, is asked behind them.
    */
  def sendWrites(send: Array[Byte] => Unit): Unit

  /** Waits until home has done all that it was sent. */
  def awaitHome(): Unit

  /** These shards have come to this lane, and have been elsewhere before: what is known here of their keys is void. */
  def arrived(shards: Seq[Int]): Unit
}
