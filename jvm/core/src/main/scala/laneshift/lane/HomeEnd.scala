package laneshift.lane

import scala.collection.mutable.ArrayBuffer

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

/** A lane on another executor during one session, to the inlet one of its lanes (docs/handoff.md, section 11): sends rows, keeps
  * them until a frame covers them, and makes of the host's answers what the inlet needs. It owns shards from `join` until it is
  * released or lost, or the input ends; where shards do not move within a batch, until `leave`.
  *
  * One thread uses it; of its methods only `turn` waits, in the inlet. Any thread may call `release` and `poke`.
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
) extends InletLane[R](lane.value, inlet) {
  import InletLane.Waiting
  require(lane.value >= inlet.limits.maxLanes, s"lane ${lane.value} is not remote")

  private val kept = new KeptRows[R]
  private var recalled = Seq.empty[Int]
  private var noticedNs = 0L

  private var ended = false
  private var gone = false

  // Under the inlet's lock: its shards go to others; its thread waits, and then whether its host is at nothing, and whether frames
  // cover all that it has taken; what its thread has to be told.
  private var isLeaving = false
  private var isAtRest = false
  private var isCovered = true
  private var poked = false
  private val arrived = new ArrayBuffer[Int]

  override def isRemote: Boolean = true
  override def owns: Boolean = !isLeaving
  override def staysToTheEnd: Boolean = !isLeaving
  override def isDone: Boolean = isAtRest
  override def hasBacklog: Boolean = !isLeaving && !(isCovered && queue.isEmpty)
  override def shardCame(shard: Int): Unit = arrived += shard
  override def shardWent(): Unit = if (isLeaving) wake()
  override def leaves(): Boolean = !isLeaving && {
    isLeaving = true
    true
  }

  /** The session is open: shards may come. False if the input ends already. */
  def join(): Boolean = inlet.admit(this)

  /** The lane is not wanted any more: its shards go to others, and then it gets the end. */
  def release(): Unit = inlet.locked(if (inlet.has(this) && leaves()) inlet.handAway(this))

  /** Makes the lane's thread look around: what is next is then `Poked`. */
  def poke(): Unit = inlet.locked {
    poked = true
    wake()
  }

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
  private def mayEnd: Boolean = kept.isEmpty && !ended
  private[lane] def hasRoom: Boolean = !recalling && kept.bytes < windowBytes

  /** Does what is next, and waits for it. */
  def turn(): Unit = handle(inlet.locked {
    val turn = inlet.turnOf(index)
    inlet.looking(turn, looks = hasRoom)(turn.await())(tryTake)
  })

  /** One attempt of `turn`, under the inlet's lock; null if there is nothing to do. */
  private[lane] def tryTake(looksAgain: Boolean): TakenRemote[R] = {
    inlet.checkRunning()
    val taken: TakenRemote[R] =
      if (poked) { poked = false; Taken.Poked }
      else if (!recalling && recalls.nonEmpty) Taken.Recall
      else if (hasRoom && arrived.nonEmpty) {
        val shards = arrived.toList.distinct
        arrived.clear()
        Taken.Arrived(shards)
      } else if (hasRoom && !queue.isEmpty) inlet.takeBlock(this)
      else if (mayEnd && queue.isEmpty && (inputHasEnded || (isLeaving && inlet.isBare(this)))) Taken.End
      else null
    isAtRest = taken == null && !isBusy
    isCovered = taken == null && mayEnd
    val how = if (!hasRoom) Waiting.NotForRows else if (looksAgain) Waiting.Looking else Waiting.ForSignal
    waits(if (taken == null) how else Waiting.No, isIdle = isCovered)
    if (isCovered) inlet.backlogWent()
    taken
  }

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
    inlet.locked {
      isLeaving = true
      inlet.takeAway(this, kept.behind)
    }
  }

  /** The host has got its end, and all that the lane has put out is on the outlet. */
  def leave(): Unit = inlet.locked(inlet.dismiss(this))
}
