package laneshift.lane

import laneshift.ids.LaneId

/** What home tells the host of one session, in this order. Never waits. */
trait HostWire[R] {

  /** Rows to work on; the first one has this number. */
  def rows(first: Long, block: RowBlock[R]): Unit

  /** What follows is of the next input. */
  def nextInput(): Unit

  /** What the host knows of these shards' state is out of date. */
  def arrived(shards: Seq[Int]): Unit

  /** These shards are wanted elsewhere: of the rows so far, which end with number `upTo`, the host shall work on no more. */
  def recall(shards: Seq[Int], upTo: Long): Unit

  /** There are no more rows. */
  def end(): Unit
}

/** Home's end of one session with a remote lane (docs/handoff.md, section 11): sends rows, keeps them until a frame covers them, and
  * makes of the host's answers what the inlet needs. One thread uses it; of its methods only `turn` waits, in the inlet.
  *
  * @param windowBytes bytes of rows that the host may have without having acknowledged them; one block more at most
  * @param readsAhead the host's operators may hold rows that they have taken: they are never known to be done
  */
final class HomeEnd[R](
    inlet: Inlet[R],
    lane: LaneId,
    windowBytes: Long,
    readsAhead: Boolean,
    host: HostWire[R]
) {
  private val kept = new KeptRows[R]
  private var recalled = Seq.empty[Int]
  private var noticedNs = 0L

  private var ended = false
  private var gone = false

  /** The host is no more: what comes from it all the same must not be applied. */
  def isLost: Boolean = gone

  /** The host has got its end: nothing but its last frames is to come. */
  def isOver: Boolean = ended

  /** Bytes of rows that the host was sent and has not acknowledged. */
  def keptBytes: Long = kept.bytes

  private[lane] def recalling: Boolean = recalled.nonEmpty

  /** The host may be at something, of rows that it has read ahead or before its first one; or it has got its end, and home waits
    * for its last word.
    */
  private[lane] def isBusy: Boolean = !kept.isEmpty || readsAhead || ended

  /** Of a lane without shards, what the host may still be at comes to nothing. */
  private[lane] def mayEnd: Boolean = kept.isEmpty && !ended
  private[lane] def hasRoom: Boolean = !recalling && kept.bytes < windowBytes

  /** Does what is next, and waits for it. */
  def turn(): Unit = handle(inlet.takeRemote(lane, hasRoom, !recalling, isBusy, mayEnd))

  /** One attempt of `turn`, under the inlet's lock; null if there is nothing to do. */
  private[lane] def tryTake(looksAgain: Boolean): TakenRemote[R] =
    inlet.tryTakeRemote(lane, hasRoom, !recalling, isBusy, mayEnd, looksAgain)

  private[lane] def handle(taken: TakenRemote[R]): Unit = taken match {
    case Taken.Rows(block) =>
      // A block from which all was extracted is nothing to the host.
      if (block.rows > 0) {
        host.rows(kept.add(block), block)
      }
    case Taken.NextInput => host.nextInput()
    case Taken.Arrived(shards) => host.arrived(shards)
    case Taken.Recall =>
      noticedNs = System.nanoTime()
      recalled = inlet.recalls(lane).map(_.shard)
      if (!isBusy) letGo()
      else host.recall(recalled, kept.last)
    case Taken.End =>
      ended = true
      host.end()
    case Taken.Poked => ()
  }

  /** The host has worked on all rows up to this number, and what follows from them is in the store and on the outlet.
    *
    * @param answers whether the host has seen the recall, and works no more on the recalled shards' rows
    */
  def covered(upTo: Long, answers: Boolean): Unit = {
    if (isLost) throw new IllegalStateException("a frame of a host that was given up")
    kept.cover(upTo)
    if (answers) {
      if (!recalling) throw new IllegalArgumentException("the host answers a recall that it was not sent")
      letGo()
    }
  }

  private def letGo(): Unit = {
    inlet.letGo(lane, kept.behind, noticedNs, recalled)
    recalled = Nil
  }

  /** Rows that no frame has covered; for tests. */
  private[lane] def keepsRows: Boolean = !kept.isEmpty
  private[lane] def unacknowledged: Seq[Remainder[R]] = kept.behind

  /** The host is no more: what no frame has covered was never worked on. */
  def lost(): Unit = {
    gone = true
    inlet.lost(lane, kept.behind)
  }
}
