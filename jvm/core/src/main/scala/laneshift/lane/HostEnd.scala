package laneshift.lane

import java.util.ArrayDeque

/** The host's end of one session with a remote lane (docs/handoff.md, section 11): which row is next, and which are no more to be
  * worked on. One thread uses it.
  */
final class HostEnd[R](shards: Int) {
  private val blocks = new ArrayDeque[RowBlock[R]]
  private var block: RowBlock[R] = _
  private var at = 0
  private var betweenInputs = false
  private var passed = 0L
  private var received = 0L

  /** By shard, up to which number rows are not the lane's any more. */
  private val goneUpTo = new Array[Long](shards)

  /** The number of the last row that was given or skipped: what a frame covers once the row is worked on. */
  def position: Long = passed

  /** Rows of home. Throws if they do not follow what was received before. */
  def add(firstNumber: Long, rows: RowBlock[R]): Unit = {
    if (firstNumber != received + 1)
      throw new IllegalArgumentException(s"rows from $firstNumber come after those up to $received")
    blocks.addLast(rows)
    received += rows.size
  }

  /** What follows is of the next input. */
  def addBoundary(): Unit = blocks.addLast(new Boundary[R])

  /** The rows of an input have ended, and [[nextInput]] goes on with the next one's. */
  def isBetweenInputs: Boolean = betweenInputs

  def nextInput(): Unit = betweenInputs = false

  /** The lane stands between two rows and gives these shards up: their rows up to this number are not its own any more. */
  def recalled(gone: Seq[Int], upTo: Long): Unit = {
    if (upTo > received) throw new IllegalArgumentException(s"rows up to $upTo are recalled of $received")
    gone.foreach(shard => goneUpTo(shard) = upTo)
  }

  /** Goes to the next row of the input, which is then row `index` of `current`; false if there is none now. */
  def advance(): Boolean = {
    var found = false
    while (!found && !betweenInputs && hasMore)
      if (block == null || at == block.size) {
        block = blocks.pollFirst()
        at = 0
        betweenInputs = block.isInstanceOf[Boundary[_]]
      } else {
        passed += 1
        val shard = block.shardAt(at)
        at += 1
        found = shard >= 0 && passed > goneUpTo(shard)
      }
    found
  }

  private def hasMore: Boolean = (block != null && at < block.size) || !blocks.isEmpty

  /** The block that the row of the last `advance` is in, its place there, and its shard. */
  def current: RowBlock[R] = block
  def index: Int = at - 1
  def shard: Int = block.shardAt(at - 1)
}
