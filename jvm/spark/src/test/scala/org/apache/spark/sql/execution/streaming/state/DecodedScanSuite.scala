package org.apache.spark.sql.execution.streaming.state

import java.util.ArrayDeque

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.laneshift.body.StateBytes
import org.apache.spark.sql.types._

import laneshift.testing.LimitedSuite

class DecodedScanSuite extends LimitedSuite {
  private val schema = new StructType().add("n", LongType)

  private def row(bytes: Array[Byte]): UnsafeRow =
    UnsafeProjection.create(schema)(InternalRow(bytes.head.toLong)).copy()

  /** Two values for each of the keys 1, 2, 3, all fetched at once. */
  private def scan(onClose: () => Unit): DecodedScan = {
    val rows = new ArrayDeque[StateBytes]
    Seq[Byte](1, 2, 3).foreach(n => rows.addLast(StateBytes(Array(n), Array(n))))
    new DecodedScan(() => rows, row, _ => true, bytes => Iterator(row(bytes), row(bytes)), onClose)
  }

  test("a scan gives every value of what it fetches") {
    assert(scan(() => ()).map(_.value.getLong(0)).toSeq == Seq(1L, 1L, 2L, 2L, 3L, 3L))
  }

  Seq("with values of a key ahead" -> 1, "with rows ahead" -> 2).foreach { case (how, taken) =>
    test(s"a scan closed $how has no next") {
      var closed = false
      val some = scan(() => closed = true)
      (1 to taken).foreach(_ => some.next())
      assert(some.hasNext)
      some.close()
      assert(closed && !some.hasNext)
      intercept[NoSuchElementException](some.next())
    }
  }
}
