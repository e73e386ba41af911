package org.apache.spark.sql.execution.streaming.state

import java.util.{ArrayDeque, Properties}

import org.apache.spark.{TaskContext, TaskContextImpl}
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.laneshift.body.StateBytes
import org.apache.spark.sql.types._
import org.apache.spark.util.NextIterator

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

  test("scans that are over leave nothing with the task, whose end closes those that are open") {
    val task =
      new TaskContextImpl(0, 0, 0, 0L, 0, 1, null, new Properties, null, TaskMetrics.empty, 1.0, Map.empty)
    var closed = 0
    final class Nothing extends NextIterator[ByteArrayPair] {
      assert(TaskContext.get() == null, "Spark would keep it with the task")
      override protected def getNext(): ByteArrayPair = {
        finished = true
        null
      }
      override protected def close(): Unit = closed += 1
    }
    TaskContext.setTaskContext(task)
    try {
      val scans = new OpenScans
      def open() = scans.open(new NativeScan(new Object, new Nothing, 1, _))
      (1 to 3).foreach(_ => open().close())
      open().fetch()
      assert(closed == 4 && scans.count == 0)
      Seq.fill(2)(open())
      assert(closed == 4 && scans.count == 2 && (TaskContext.get() eq task))
      task.markTaskCompleted(None)
      assert(closed == 6 && scans.count == 0)
    } finally TaskContext.unset()
  }
}
