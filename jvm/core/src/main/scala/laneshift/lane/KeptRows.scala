package laneshift.lane

import java.util.ArrayDeque

import scala.jdk.CollectionConverters._

/** The rows that a remote lane was sent and that no frame covers yet, in the blocks that were sent. Rows of a session are
  * numbered from 1 in the order in which they are sent; places from which rows were extracted count. Not safe for several threads.
  */
final class KeptRows[R] {
  private final class Kept(val block: RowBlock[R], val first: Long) {
    def last: Long = first + block.size - 1
  }

  private val blocks = new ArrayDeque[Kept]
  private var sent = 0L
  private var covered = 0L

  def isEmpty: Boolean = covered == sent

  /** The number of the last row that was sent; 0 before the first. */
  def last: Long = sent

  /** Bytes of the blocks that are kept, without what was extracted. */
  def bytes: Long = {
    var sum = 0L
    blocks.forEach(kept => sum += kept.block.bytes)
    sum
  }

  /** Keeps a block that is sent now; the number of its first row. */
  def add(block: RowBlock[R]): Long = {
    val first = sent + 1
    blocks.addLast(new Kept(block, first))
    sent += block.size
    first
  }

  /** All rows up to this number are worked on. */
  def cover(upTo: Long): Unit = {
    if (upTo < covered || upTo > sent)
      throw new IllegalArgumentException(
        s"rows up to $upTo are acknowledged, but $covered of $sent were before"
      )
    covered = upTo
    while (!blocks.isEmpty && isDone(blocks.peekFirst)) blocks.pollFirst()
  }

  private def isDone(kept: Kept): Boolean = kept.last <= covered

  /** The rows that are not worked on, in order. */
  def behind: Seq[Remainder[R]] = blocks.asScala.toList.map { kept =>
    Remainder(kept.block, math.max(0L, covered + 1 - kept.first).toInt)
  }
}
