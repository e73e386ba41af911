package org.apache.spark.sql.laneshift.driver

import java.util.{Arrays, Objects}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.laneshift.runtime.PartitionView
import org.apache.spark.sql.laneshift.spec.OperatorKey
import org.apache.spark.sql.laneshift.wire.RpcBytes

/** What each executor has said of its partitions last. What it says again is the same object, so that whatever was made of it
  * need not be made again: most partitions are as they were a second ago.
  */
private[driver] final class KnownViews {
  import KnownViews._

  private val newest = new ConcurrentHashMap[String, Told]

  def read(executorId: String, answer: Array[Byte]): Seq[PartitionView] = newest.compute(
    executorId,
    (_, last) =>
      if (last != null && Arrays.equals(last.answer, answer)) last
      else {
        val known = if (last == null) Map.empty[(OperatorKey, Int), PartitionView] else last.byPartition
        new Told(
          answer,
          RpcBytes.read[Seq[PartitionView]](answer)
            .map(view => known.get(keyOf(view)).filter(same(_, view)).getOrElse(view))
        )
      }
  ).views

  def forget(executorId: String): Unit = {
    newest.remove(executorId)
    ()
  }
}

private[driver] object KnownViews {
  private final class Told(val answer: Array[Byte], val views: Seq[PartitionView]) {
    lazy val byPartition: Map[(OperatorKey, Int), PartitionView] = views.map(v => keyOf(v) -> v).toMap
  }

  private def keyOf(view: PartitionView) = (view.spec.key, view.index)

  /** Equal, and so are arrays within. False where it cannot tell. */
  def same(a: Any, b: Any): Boolean = a match {
    case many: Seq[_] => b match {
        case other: Seq[_] => many.corresponds(other)(same(_, _))
        case _ => false
      }
    case fields: Product => b match {
        case other: Product =>
          fields.getClass == other.getClass &&
          fields.productIterator.zip(other.productIterator).forall { case (x, y) => same(x, y) }
        case _ => false
      }
    case value => Objects.deepEquals(value, b)
  }
}
