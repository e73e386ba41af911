package org.apache.spark.sql.laneshift

import java.nio.file.Path

import org.scalatest.Suite

import org.apache.spark.sql.functions._
import org.apache.spark.sql.laneshift.rescale.TakeOver

/** A query that sums by key, of which a test changes the number of state partitions. */
trait RescaleSession extends ElasticSession { this: Suite =>
  val sums: QueryCase =
    QueryCase("sums", "update")(_.groupBy("key").agg(count("*"), sum("value"), max("id")))
  val chunks: Seq[Seq[TestInput]] = (0 until 60).map(i => TestInput.rows(seed = 61, i * 60L, 60))

  def withoutPartition(state: Seq[String]): Seq[String] =
    state.map(_.replaceFirst("/\\d+", "")).sorted

  /** What stock Spark makes of the first chunks, in one batch. */
  def stock(count: Int): RescaleResult = withFolder { at =>
    withConf(ElasticSession.Stock: _*)(
      new RescaleRun(spark, sums, at, Map.empty).stock(Seq(chunks.take(count).flatten))
    )
  }

  def elastic[T](body: (RescaleRun, Path) => T): T = elastic(sums)(body)
  def elastic[T](query: QueryCase, options: (String, String)*)(body: (RescaleRun, Path) => T): T =
    withFolder { at =>
      withConf(ElasticSession.moving(6L) ++ options: _*) {
        val run = new RescaleRun(spark, query, at, Map.empty)
        run.start()
        try body(run, at)
        finally {
          TakeOver.held = false
          run.query.stop()
          Leftovers.check()
        }
      }
    }

  /** A batch, behind which it is asked for 5 partitions, and the one that begins the rescale. */
  def begin(run: RescaleRun): Unit = {
    run.add(chunks.head)
    run.await()
    run.ask(5)
    run.add(chunks(1))
    run.await()
  }
}
