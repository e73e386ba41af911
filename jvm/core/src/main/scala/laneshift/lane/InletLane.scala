package laneshift.lane

import scala.collection.mutable.ArrayBuffer

import laneshift.routing.Handoff

/** A lane as its inlet knows it, wherever it works: the rows that wait for it, and what is asked of it. The inlet's lock guards
  * it.
  */
private[lane] abstract class InletLane[R](val index: Int, inlet: Inlet[R]) {
  import InletLane.Waiting

  /** What lanes of this number have done: one that comes goes on with it. */
  val work: LaneClock = inlet.workOf(index)
  val queue: RowQueue[R] = inlet.newQueue()

  /** Handoffs that wait for it to let the shard go. */
  val recalls = new ArrayBuffer[Handoff]

  /** There are some: cheap enough to be asked before every row, by the lane's thread and without the lock. */
  @volatile var isRecalled = false

  /** Nothing comes any more behind what is queued. */
  var inputHasEnded = false
  protected var hasTaken = false
  protected var waiting: Waiting.Value = Waiting.No
  private val depth = inlet.newDepth()

  /** It works on another executor. */
  def isRemote: Boolean

  /** Shards may come to it. */
  def owns: Boolean

  /** It takes part in the end of the batch, if that begins now. */
  def staysToTheEnd: Boolean

  /** It has nothing unfinished: its shards may go without it. */
  def isDone: Boolean

  /** The end of the input has to wait until it has worked on its rows. */
  def hasBacklog: Boolean = false

  /** The input ends; true if its shards have to go to others then. */
  def leaves(): Boolean = false

  /** A shard has come to it, or one has gone. */
  def shardCame(shard: Int): Unit = ()
  def shardWent(): Unit = ()

  /** A shard of it is wanted elsewhere. */
  def recall(handoff: Handoff): Unit = {
    recalls += handoff
    isRecalled = true
    wake()
  }

  def wake(): Unit = if (waiting != Waiting.No) inlet.turnOf(index).signal()

  /** After rows were appended: a lane that looks again by itself is left alone until it is worth its while. */
  def rowCame(): Unit =
    if (waiting == Waiting.ForSignal || (waiting == Waiting.Looking && isWorthWaking)) wake()

  private def isWorthWaking: Boolean = queue.rows >= LaneFeed.RowsWorthWaking

  /** The receiver waits for room: so whoever has rows shall look now. */
  def makeRoom(): Unit = if (queue.rows > 0 && waiting != Waiting.NotForRows) wake()

  def hasQueueRoom: Boolean =
    queue.bytes < inlet.limits.queueBytes && (depth.isEmpty || queue.rows < depth.get.rows)

  /** The next block of the queue: all before it is worked on, and its outputs are put out. */
  def poll(): RowBlock[R] = {
    depth.foreach(_.note(work.rows, work.putOutUntil()))
    val block = queue.poll()
    work.rows += block.rows
    hasTaken = true
    block
  }

  /** How it waits from now on, and whether it has nothing to do meanwhile. */
  protected def waits(how: Waiting.Value, isIdle: Boolean): Unit = {
    waiting = how
    if (isIdle) work.rests() else work.works()
  }
}

private[lane] object InletLane {

  /** What a lane without rows does. */
  object Waiting extends Enumeration {
    val No, Looking, ForSignal, NotForRows = Value
  }
}
