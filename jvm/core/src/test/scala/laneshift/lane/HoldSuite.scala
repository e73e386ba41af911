package laneshift.lane

import java.util.ArrayDeque

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

class HoldSuite extends AnyFunSuite {

  private def items(blocks: ArrayDeque[RowBlock[Item]]): Seq[Item] = blocks.asScala.toSeq.flatMap { b =>
    (0 until b.size).filter(b.shardAt(_) >= 0).map(b.asInstanceOf[ArrayBlock].itemAt)
  }

  test("rows come out in the order in which they went in, over block ends") {
    val hold = new Hold[Item](() => new ArrayBlock(3))
    val in = (0 until 8).map(i => Item(1, i.toLong))
    in.foreach(hold.append(_, 1))
    assert((hold.rows, hold.bytes) == ((8L, 80L)))
    val out = new ArrayDeque[RowBlock[Item]]
    hold.drainTo(out)
    assert(items(out) == in)
    assert((hold.rows, hold.bytes) == ((0L, 0L)))
  }

  test("a drained hold goes behind what is there and can be used again") {
    val hold = new Hold[Item](() => new ArrayBlock(2))
    val out = new ArrayDeque[RowBlock[Item]]
    hold.append(Item(1, 0), 1)
    hold.drainTo(out)
    hold.append(Item(1, 1), 1)
    hold.drainTo(out)
    assert(items(out).map(_.seq) == Seq(0L, 1L))
  }

  test("extraction takes one shard's rows from a place on, marks them, and keeps counts and bytes") {
    val block = new ArrayBlock(8)
    Seq(1, 2, 1, 2, 1).zipWithIndex.foreach { case (s, i) => block.append(Item(s, i.toLong), s) }
    val hold = new Hold[Item](() => new ArrayBlock(8))
    assert(block.extract(1, from = 1, hold) == 2)
    assert((0 until block.size).map(block.shardAt) == Seq(1, 2, -1, 2, -1))
    assert((block.size, block.rows, block.bytes) == ((5, 3, 30L)))
    assert((hold.rows, hold.bytes) == ((2L, 20L)))
    assert(block.extract(1, from = 1, hold) == 0)
  }
}
