package org.apache.spark.sql.execution.streaming.state

import java.util.{HashMap, HashSet}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.laneshift.spec.StateRead
import org.apache.spark.sql.types.DataType

/** Keys whose state an operator will read, as the rows tell that a host lane has: asked for in blocks when the first of them is
  * read, instead of one by one. What is expected and never read costs no more than its way; what is read and was not expected is
  * asked for alone.
  *
  * @param limit bytes of keys; those that come later are not expected
  */
private[state] final class ExpectedKeys(read: StateRead, limit: Long) {
  private val keyOf = UnsafeProjection.create(read.key)
  private val seen = new HashSet[UnsafeRow]
  private val inOrder = new ArrayBuffer[UnsafeRow]

  /** By column family, how many of them have been asked for. */
  private val asked = new HashMap[Int, Int]
  private var bytes = 0L

  def operatorId: Long = read.operatorId

  /** What the keys look like. */
  val types: Seq[DataType] = read.key.map(_.dataType)

  /** This row has come. */
  def add(row: UnsafeRow): Unit = {
    val key = keyOf(row)
    if (bytes < limit && !seen.contains(key)) {
      val own = key.copy()
      seen.add(own)
      inOrder += own
      bytes += own.getSizeInBytes
    }
  }

  /** The next keys in the order in which they came; each is given once for each column family. */
  def take(table: Int, most: Int): Seq[UnsafeRow] = {
    val from = asked.getOrDefault(table, 0)
    val until = math.min(from + most, inOrder.size)
    asked.put(table, until)
    inOrder.slice(from, until).toSeq
  }
}
