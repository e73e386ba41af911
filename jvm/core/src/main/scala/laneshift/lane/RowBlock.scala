package laneshift.lane

/** Some rows, each with the shard of its key, on their way between two threads. One thread at a time owns a block; handing
  * it over through a monitor is what makes its content visible.
  *
  * @tparam R what a row is to this engine; the block copies it in `append`
  */
trait RowBlock[R] {

  /** What all its rows come from, such as a file; null where nobody asks. */
  final var origin: AnyRef = _

  /** Rows ever appended, extracted ones included: the bound of a cursor. */
  def size: Int

  /** Rows appended and not extracted. */
  def rows: Int

  /** Bytes of the rows appended and not extracted: what the bounds of queues count. */
  def bytes: Long

  /** True if the block should not take another row. */
  def isFull: Boolean

  def append(row: R, shard: Int): Unit

  /** The shard of row `i`, or [[RowBlock.Extracted]] if it was taken out again. */
  def shardAt(i: Int): Int

  /** Moves the rows of `shard` at or behind `from` to the end of `to`, in order, and marks them here. Returns how many. */
  def extract(shard: Int, from: Int, to: RowQueue[R]): Int
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
  override def extract(shard: Int, from: Int, to: RowQueue[R]): Int = 0
}

/** Rows on their way to one lane, in order, in blocks. Not safe for several threads. */
final class RowQueue[R](newBlock: () => RowBlock[R]) {
  private val blocks = new java.util.ArrayDeque[RowBlock[R]]
  private var queuedBytes = 0L
  private var queuedRows = 0L

  def bytes: Long = queuedBytes
  def rows: Long = queuedRows

  /** True without any block; blocks from which all rows were extracted count. */
  def isEmpty: Boolean = blocks.isEmpty

  /** Copies the row, into the last block if that has room, fewer than `blockRows` rows and the same origin. */
  def append(row: R, shard: Int, blockRows: Long = Long.MaxValue, origin: AnyRef = null): Unit = {
    val tail = blocks.peekLast
    val block =
      if (tail != null && !tail.isFull && tail.rows < blockRows && (tail.origin eq origin)) tail
      else {
        val b = newBlock()
        b.origin = origin
        blocks.addLast(b)
        b
      }
    val before = block.bytes
    block.append(row, shard)
    queuedBytes += block.bytes - before
    queuedRows += 1
  }

  /** The block is the queue's from now on. */
  def add(block: RowBlock[R]): Unit = {
    blocks.addLast(block)
    queuedBytes += block.bytes
    queuedRows += block.rows
  }

  def addBoundary(): Unit = add(new Boundary[R])

  /** That of the first block, of which there is one. */
  def firstOrigin: AnyRef = blocks.peekFirst.origin

  /** The first block, or null. */
  def poll(): RowBlock[R] = {
    val block = blocks.pollFirst()
    if (block != null) {
      queuedBytes -= block.bytes
      queuedRows -= block.rows
    }
    block
  }

  /** Moves the rows of `shard` to the end of `to`, in order. Returns how many. */
  def extract(shard: Int, to: RowQueue[R]): Int = {
    var moved = 0
    blocks.forEach { block =>
      val before = block.bytes
      moved += block.extract(shard, 0, to)
      queuedBytes -= before - block.bytes
    }
    queuedRows -= moved
    moved
  }

  /** The blocks, in order; for tests. */
  private[lane] def contents: java.lang.Iterable[RowBlock[R]] = blocks
}
