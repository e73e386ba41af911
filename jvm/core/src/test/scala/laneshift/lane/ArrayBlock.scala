package laneshift.lane

/** A row of the inlet's tests: the `seq`-th of its key, counted from 0, of a batch's `input`-th input. */
final case class Item(key: Int, seq: Long, bytes: Long = 10L, input: Int = 0)

/** Rows as objects in an array. */
final class ArrayBlock(capacity: Int) extends RowBlock[Item] {
  private val items = new Array[Item](capacity)
  private val shards = new Array[Int](capacity)
  private var count = 0
  private var gone = 0
  private var left = 0L

  override def size: Int = count
  override def rows: Int = count - gone
  override def bytes: Long = left
  override def isFull: Boolean = count == capacity
  override def shardAt(i: Int): Int = shards(i)
  def itemAt(i: Int): Item = items(i)

  override def append(row: Item, shard: Int): Unit = {
    items(count) = row
    shards(count) = shard
    count += 1
    left += row.bytes
  }

  override def extract(shard: Int, from: Int, to: RowQueue[Item]): Int = {
    var moved = 0
    var i = from
    while (i < count) {
      if (shards(i) == shard) {
        to.append(items(i), shard)
        shards(i) = RowBlock.Extracted
        left -= items(i).bytes
        gone += 1
        moved += 1
      }
      i += 1
    }
    moved
  }

  /** What a host gets of it: the same places, those of extracted rows included. */
  def sent: ArrayBlock = {
    val copy = new ArrayBlock(capacity)
    items.copyToArray(copy.items)
    shards.copyToArray(copy.shards)
    copy.count = count
    copy.gone = gone
    copy.left = left
    copy
  }

  /** Key and number of each row. */
  override def toString: String =
    (0 until count).filter(shards(_) >= 0).map(i => s"${items(i).key}:${items(i).seq}").mkString(
      "rows ",
      " ",
      ""
    )
}

/** The state of a test's operator, shared by lanes as they share a store: each key's rows have to come as 0, 1, 2, ... and
  * no two lanes may be in one shard. Sums and XORs find what a sequence cannot.
  */
final class KeyedState(keys: Int, shards: Int) {
  private val next = new Array[Long](keys)
  private val sums = new Array[Long](keys)
  private val xors = new Array[Long](keys)
  private val inside = new java.util.concurrent.atomic.AtomicIntegerArray(shards)

  def shardOf(key: Int): Int = key % shards

  /** What a lane does with a row. The plain fields are on purpose: seeing the last lane's writes is the handoff's task. */
  def process(lane: Int, item: Item, shard: Int): Unit = {
    assert(shard == shardOf(item.key), s"key ${item.key} came with shard $shard")
    val other = inside.getAndSet(shard, lane + 1)
    assert(other == 0, s"lanes ${other - 1} and $lane are in shard $shard at once")
    val expected = next(item.key)
    assert(item.seq == expected, s"lane $lane got row ${item.seq} of key ${item.key}, not row $expected")
    next(item.key) = expected + 1
    sums(item.key) += item.seq
    xors(item.key) ^= KeyedState.mix(item)
    inside.set(shard, 0)
  }

  /** Checks that all `counts(key)` rows of each key were processed. */
  def check(counts: Array[Long]): Unit = counts.indices.foreach { key =>
    val n = counts(key)
    assert(next(key) == n, s"${next(key)} of $n rows of key $key were processed")
    assert(sums(key) == n * (n - 1) / 2, s"sum of key $key")
    val all = (0L until n).foldLeft(0L)((x, seq) => x ^ KeyedState.mix(Item(key, seq)))
    assert(xors(key) == all, s"XOR of key $key")
  }

  private def assert(right: Boolean, what: => String): Unit = if (!right) throw new AssertionError(what)
}

object KeyedState {
  private def mix(item: Item): Long = (item.key * 0x9e3779b97f4a7c15L) ^ (item.seq * 0xff51afd7ed558ccdL)
}
