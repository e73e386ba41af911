package org.apache.spark.sql.laneshift.driver

import org.apache.spark.sql.Encoder
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.{Asked, ElasticSession, MicroBatchRun, Patience, QueryCase, TestInput}
import org.apache.spark.sql.laneshift.runtime.PartitionView
import org.apache.spark.sql.laneshift.wire.RpcBytes
import org.apache.spark.sql.streaming.StreamingQuery

import laneshift.testing.LimitedSuite

/** What an executor says of a partition again is the same object; what is another in anything is not. */
class KnownViewsSuite extends LimitedSuite with ElasticSession {
  private val sums = QueryCase("sums", "update")(_.groupBy("key").agg(count("*"), sum("value")))

  /** A query whose first batch is over, and what is said of its partitions then. */
  private def resting(body: (StreamingQuery, () => Map[Int, PartitionView]) => Unit): Unit = {
    val options =
      Seq("spark.sql.laneshift.lanes" -> "2", "spark.sql.streaming.noDataProgressEventInterval" -> "1h")
    withConf(options: _*)(withFolder { folder =>
      val session = spark
      import session.implicits._
      val input = MemoryStream[TestInput](implicitly[Encoder[TestInput]], spark)
      val query = MicroBatchRun.start(sums, input.toDF(), folder) { (rows, _) => rows.collect(); () }
      def views() = DriverState.get.get.executors.partitions()
        .map(_.view)
        .filter(_.spec.key.runId == query.runId.toString)
        .map(v => v.index -> v)
        .toMap
      try {
        input.addData(TestInput.rows(seed = 5, 0, 300))
        query.processAllAvailable()
        Patience.until(query)(isSame(views(), { Thread.sleep(1500); views() }))
        body(query, () => views())
      } finally query.stop()
    })
  }

  private def isSame(a: Map[Int, PartitionView], b: Map[Int, PartitionView]) =
    a.nonEmpty && a.keySet == b.keySet && a.forall { case (index, view) => view eq b(index) }

  test("of partitions at rest the one that is changed is told anew, and no other") {
    resting { (query, views) =>
      val before = views()
      assert(before.size > 1)
      Asked.lanes(Asked.wish(query.id.toString, Some(0), 3))
      val after = views()
      assert((after(0) ne before(0)) && isSame(before - 0, after - 0))
    }
  }

  test("a view that is another in any field is not the same") {
    resting { (_, views) =>
      val view = views()(0)
      assert(KnownViews.same(view, copied(view)))
      val make = classOf[PartitionView].getConstructors.head
      val fields = view.productIterator.toIndexedSeq
      val names = view.productElementNames.toIndexedSeq
      fields.indices.foreach { i =>
        val other = make.newInstance(fields.updated(i, changed(fields(i))).map(_.asInstanceOf[AnyRef]): _*)
        assert(!KnownViews.same(view, other), names(i))
        assert(KnownViews.same(other, copied(other.asInstanceOf[PartitionView])), names(i))
      }
    }
  }

  private def copied(view: PartitionView) = RpcBytes.read[PartitionView](RpcBytes.of(view))

  /** Another value of the same type. */
  private def changed(value: Any): Any = value match {
    case b: Boolean => !b
    case n: Int => n + 1
    case n: Long => n + 1
    case n: Double => n + 1
    case text: String => s"$text+"
    case array: Array[Int] => if (array.isEmpty) Array(1) else array.updated(array.length - 1, array.last + 1)
    case array: Array[Long] =>
      if (array.isEmpty) Array(1L) else array.updated(array.length - 1, array.last + 1)
    case array: Array[Double] =>
      if (array.isEmpty) Array(1.0) else array.updated(array.length - 1, array.last + 1)
    case Some(_) => None
    case None => Some("something")
    case many: Seq[_] => many.asInstanceOf[Seq[Any]] :+ "something"
    case fields: Product =>
      val make = fields.getClass.getConstructors.head
      val values = fields.productIterator.toIndexedSeq
      make.newInstance(values.updated(0, changed(values(0))).map(_.asInstanceOf[AnyRef]): _*)
    case other => fail(s"no other value than $other is known")
  }
}
