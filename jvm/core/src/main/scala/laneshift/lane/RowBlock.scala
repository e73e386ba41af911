package laneshift.lane

/** Some rows, each with the shard of its key, on their way between two threads. One thread at a time owns a block; handing
  * it over through a monitor is what makes its content visible.
  *
  * @tparam R what a row is to this engine; the block copies it in `append`
  */
trait RowBlock[R] {

  /** Rows ever appended, extracted ones included: the bound of a cursor. */
  def size: Int

  /** Rows appended and not extracted. */
  def rows: Int

  /** Bytes of the rows appended and not extracted: what the bounds of queues and holds count. */
  def bytes: Long

  /** True if the block should not take another row. */
  def isFull: Boolean

  def append(row: R, shard: Int): Unit

  /** The shard of row `i`, or [[RowBlock.Extracted]] if it was taken out again. */
  def shardAt(i: Int): Int

  /** Moves the rows of `shard` at or behind `from` into `hold`, in order, and marks them here. Returns how many. */
  def extract(shard: Int, from: Int, hold: Hold[R]): Int
}

object RowBlock {
  val Extracted: Int = -1
}

/** Stands in a lane's queue between the rows of two inputs: nothing in it, and nothing goes in. */
private[lane] final class Boundary[R] extends RowBlock[R] {
  override def size: Int = 0
  override def rows: Int = 0
  override def bytes: Long = 0L
  override def isFull: Boolean = true
  override def append(row: R, shard: Int): Unit =
    throw new IllegalStateException("a row between two inputs")
  override def shardAt(i: Int): Int = RowBlock.Extracted
  override def extract(shard: Int, from: Int, hold: Hold[R]): Int = 0
}

/** Rows of one shard that wait for its handoff, in order. */
final class Hold[R](newBlock: () => RowBlock[R]) {
  private val blocks = new java.util.ArrayDeque[RowBlock[R]]
  private var heldBytes = 0L
  private var heldRows = 0L

  def bytes: Long = heldBytes
  def rows: Long = heldRows

  def append(row: R, shard: Int): Unit = {
    val tail = blocks.peekLast
    val block = if (tail == null || tail.isFull) { val b = newBlock(); blocks.addLast(b); b }
    else tail
    val before = block.bytes
    block.append(row, shard)
    heldBytes += block.bytes - before
    heldRows += 1
  }

  /** The rows, in order; for tests. */
  private[lane] def contents: java.lang.Iterable[RowBlock[R]] = blocks

  /** Puts the blocks behind those of `other`; this hold is empty afterwards. */
  def drainTo(other: java.util.ArrayDeque[RowBlock[R]]): Unit = {
    other.addAll(blocks)
    blocks.clear()
    heldBytes = 0L
    heldRows = 0L
  }
}
