package org.apache.spark.sql.laneshift

import java.sql.Timestamp

import scala.util.Random

import laneshift.testing.Deep

/** A key of several fields. */
final case class Place(city: String, zone: Int)

/** What the query suites read: keys of several types with skew, null keys, values whose sums are exact. */
final case class TestInput(
    id: Long,
    key: String,
    number: Int,
    value: Long,
    time: Timestamp,
    amount: BigDecimal,
    maybe: Option[String],
    place: Place
)

object TestInput {

  /** Three batches that many suites read: what stock Spark makes of them is known once (see [[PairCheck]]). The deep tier has more rows. */
  lazy val chunks: Seq[Seq[TestInput]] = {
    val (batches, count) = if (Deep.isAsked) (4, 700) else (3, 300)
    (0 until batches).map(i => rows(seed = 1, i.toLong * count, count))
  }

  /** The rows of Real-time Mode, likewise. */
  lazy val realTime: Seq[TestInput] =
    rows(seed = 2, first = 0, count = if (Deep.isAsked) 4000 else 1500, keys = 60)

  /** `count` rows starting with id `first`, event times rising by about `msPerRow` with some disorder. */
  def rows(seed: Long, first: Long, count: Int, keys: Int = 150, msPerRow: Long = 20): Seq[TestInput] = {
    val random = new Random(seed * 7919 + first)
    Seq.tabulate(count) { i =>
      val id = first + i
      val skewed = (keys * math.pow(random.nextDouble(), 3)).toInt
      val time = 1700000000000L + id * msPerRow - random.nextInt(2000)
      TestInput(
        id,
        s"key-$skewed",
        skewed % 17,
        random.nextInt(1000).toLong - 500,
        new Timestamp(time),
        BigDecimal(random.nextInt(100000), 2),
        if (random.nextInt(4) == 0) None else Some(s"m${random.nextInt(20)}"),
        Place(s"city-${skewed % 11}", skewed % 3)
      )
    }
  }
}
