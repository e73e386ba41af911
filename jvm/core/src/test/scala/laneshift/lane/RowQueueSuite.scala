package laneshift.lane

import scala.jdk.CollectionConverters._

import laneshift.testing.LimitedSuite

class RowQueueSuite extends LimitedSuite {

  private def items(queue: RowQueue[Item]): Seq[Item] = queue.contents.asScala.toSeq.flatMap(items)

  private def items(block: RowBlock[Item]): Seq[Item] =
    (0 until block.size).filter(block.shardAt(_) >= 0).map(block.asInstanceOf[ArrayBlock].itemAt)

  test("rows come out in the order in which they went in, over block ends") {
    val queue = new RowQueue[Item](() => new ArrayBlock(3))
    val in = (0 until 8).map(i => Item(1, i.toLong))
    in.foreach(queue.append(_, 1))
    assert((queue.rows, queue.bytes) == ((8L, 80L)))
    assert(Iterator.continually(queue.poll()).takeWhile(_ != null).flatMap(items).toSeq == in)
    assert((queue.rows, queue.bytes) == ((0L, 0L)) && queue.isEmpty)
  }

  test("nothing is appended before a boundary that is the last block") {
    val queue = new RowQueue[Item](() => new ArrayBlock(3))
    queue.append(Item(1, 0L), 1)
    queue.addBoundary()
    queue.append(Item(1, 1L), 1)
    assert(items(queue.poll()).map(_.seq) == Seq(0L))
    assert(queue.poll().isInstanceOf[Boundary[_]] && queue.rows == 1)
    assert(items(queue.poll()).map(_.seq) == Seq(1L))
  }

  test("one shard's rows go behind those of another queue, in order; counts and bytes follow") {
    val from, to = new RowQueue[Item](() => new ArrayBlock(2))
    Seq(1, 2, 1, 1, 2).zipWithIndex.foreach { case (s, i) => from.append(Item(s, i.toLong), s) }
    to.append(Item(3, 9L), 3)
    assert(from.extract(1, to) == 3)
    assert(items(from).map(_.seq) == Seq(1L, 4L) && items(to).map(_.seq) == Seq(9L, 0L, 2L, 3L))
    assert((from.rows, from.bytes, to.rows, to.bytes) == ((2L, 20L, 4L, 40L)))
    assert(from.extract(1, to) == 0)
  }

  test("extraction from a block begins at a place, marks what went, and keeps counts and bytes") {
    val block = new ArrayBlock(8)
    Seq(1, 2, 1, 2, 1).zipWithIndex.foreach { case (s, i) => block.append(Item(s, i.toLong), s) }
    val to = new RowQueue[Item](() => new ArrayBlock(8))
    assert(block.extract(1, from = 1, to) == 2)
    assert((0 until block.size).map(block.shardAt) == Seq(1, 2, -1, 2, -1))
    assert((block.size, block.rows, block.bytes) == ((5, 3, 30L)))
    assert((to.rows, to.bytes) == ((2L, 20L)))
    assert(block.extract(1, from = 1, to) == 0)
  }
}
