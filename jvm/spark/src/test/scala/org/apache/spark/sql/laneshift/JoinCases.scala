package org.apache.spark.sql.laneshift

import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.functions._

/** Queries with stream-stream joins. The left side are the rows with even ids, the right side those with odd ones; the sides
  * have other columns in another order.
  */
object JoinCases {
  private val late = "3 seconds"

  def left(input: DataFrame): DataFrame =
    input.where("id % 2 = 0").withWatermark("time", late).select(
      col("key").as("lk"),
      col("number").as("ln"),
      col("maybe").as("lm"),
      col("time").as("lt"),
      col("value").as("lv"),
      col("id").as("li")
    )

  def right(input: DataFrame): DataFrame =
    input.where("id % 2 = 1").withWatermark("time", late).select(
      col("id").as("ri"),
      col("time").as("rt"),
      col("amount").as("ra"),
      col("maybe").as("rm"),
      col("number").as("rn"),
      col("key").as("rk")
    )

  private val inTime = "rt >= lt - interval 2 seconds and rt <= lt + interval 1 second"

  def join(how: String, on: String = "lk = rk", time: String = inTime)(input: DataFrame): DataFrame =
    left(input).join(right(input), expr(s"$on and $time"), how)

  /** How the sides may be joined in append mode. */
  val types: Seq[String] = Seq("inner", "left_outer", "right_outer", "full_outer", "left_semi")

  /** One per join type: state is evicted by a time range of values. */
  val ranges: Seq[QueryCase] = types.map(how => QueryCase(s"$how join in a time range", "append")(join(how)))

  /** A window in the place of the time. */
  private def windowed(input: DataFrame, time: String): DataFrame =
    input.withColumn("w", window(col(time), "5 seconds")).drop(time)

  private def windowJoin(how: String)(input: DataFrame): DataFrame =
    windowed(left(input), "lt").as("a")
      .join(windowed(right(input), "rt").as("b"), expr("lk = rk and a.w = b.w"), how)
      .select("lk", "a.w", "li", "lv", "ri", "b.w.end")

  /** The sides have fields of the same types at the same places: a mistaken side reads a wrong value, not memory. */
  val plain: QueryCase = QueryCase("plain join", "append") { input =>
    val a = input.where("id % 2 = 0").withWatermark("time", late)
      .selectExpr("key as lk", "id as li", "time as lt")
    val b = input.where("id % 2 = 1").withWatermark("time", late)
      .selectExpr("concat('x', id) as rx", "id as ri", "time as rt", "key as rk")
    a.join(b, expr(s"lk = rk and $inTime"))
  }

  /** More than 64 fields on the right side, which makes its rows' heads longer; no field of variable length. */
  val wide: QueryCase = QueryCase("join with a wide right side", "append") { input =>
    val a = input.where("id % 2 = 0").withWatermark("time", late)
      .selectExpr("number as ln", "id as li", "time as lt")
    val b = input.where("id % 2 = 1").withWatermark("time", late)
      .select(col("number").as("rn") +: col("time").as("rt") +: (0 until 70).map(i =>
        (col("id") + i).as(s"c$i")
      ): _*)
    a.join(b, expr(s"ln = rn and $inTime"))
  }

  val deduplicated: QueryCase = QueryCase("deduplication below a join's left side", "append") { in =>
    left(in).dropDuplicatesWithinWatermark("lk")
      .join(right(in), expr(s"lk = rk and $inTime"), "left_outer").select("lk", "li", "ri", "rk")
  }

  /** State is evicted by a window in the key. */
  val windows: Seq[QueryCase] =
    Seq("inner", "full_outer").map(how => QueryCase(s"$how join by window", "append")(windowJoin(how)))

  val others: Seq[QueryCase] = Seq(
    QueryCase("inner join that forgets nothing", "append")(
      join("inner", "lk = rk and ln = rn", "li > ri - 300")(_)
    ),
    QueryCase("left outer join by a key with nulls", "append")(join("left_outer", "lm = rm and ln = rn")(_)),
    QueryCase("left outer join with a condition on the left side", "append")(
      join("left_outer", "lk = rk and ln > 5")(_)
    ),
    QueryCase("inner join by expressions", "append")(join("inner", "concat(lk, 'x') = concat(rk, 'x')")(_)),
    QueryCase("self-join", "append") { input =>
      val side = input.withWatermark("time", late).select("key", "number", "time", "id")
      val bounds = "a.time >= b.time - interval 1 second and a.time <= b.time"
      side.as("a").join(side.as("b"), expr(s"a.key = b.key and a.number = b.number and $bounds"))
        .select("a.key", "a.id", "b.id")
    },
    wide,
    QueryCase("work above a join", "append")(
      join("inner")(_).select(col("lk"), length(col("rk")) + col("rn"), col("ra") * 2).where("lk <> 'key-1'")
    )
  )

  private def counts(input: DataFrame, time: String, by: Column*): DataFrame =
    input.groupBy(window(col(time), "5 seconds").as("w") +: by: _*)
      .agg(count("*").as("n"))

  /** Several stateful operators, by the number of regions that they make. */
  val chains: Seq[(QueryCase, Int)] = Seq(
    QueryCase("join, then an aggregation over another shuffle", "append")(in =>
      counts(join("inner")(in), "lt", col("ln"))
    ) -> 2,
    QueryCase("join, then an aggregation over its key", "append") { in =>
      windowed(left(in), "lt").as("a").join(windowed(right(in), "rt").as("b"), expr("lk = rk and a.w = b.w"))
        .groupBy("lk", "a.w").agg(count("*"), sum("lv"), sum("ra"))
    } -> 1,
    QueryCase("aggregations below a join, same key", "append") { in =>
      counts(left(in), "lt", col("lk")).as("a")
        .join(counts(right(in), "rt", col("rk")).as("b"), expr("a.w = b.w and lk = rk"))
        .select("lk", "a.n", "b.n", "a.w.start")
    } -> 1,
    QueryCase("aggregations below a join, other key", "append") { in =>
      counts(left(in), "lt", col("lk")).as("a")
        .join(counts(right(in), "rt", col("rk")).as("b"), expr("a.w = b.w and a.n = b.n"))
        .select("lk", "rk", "a.n", "a.w.start")
    } -> 3,
    deduplicated -> 1,
    QueryCase("deduplication above a join", "append")(in =>
      join("inner")(in).select("lk", "lt", "li", "ri").dropDuplicatesWithinWatermark("lk")
    ) -> 1,
    QueryCase("deduplication, then an aggregation over the same key", "append") { in =>
      windowed(in.withWatermark("time", late), "time").select("w", "key", "number")
        .dropDuplicates("w", "key").groupBy("w", "key").agg(count("*"), max("number"))
    } -> 1,
    QueryCase("three inputs", "append") { in =>
      val third = in.where("id % 3 = 0").withWatermark("time", late)
        .select(col("key").as("tk"), col("time").as("tt"), col("id").as("ti"))
      join("inner")(in)
        .join(third, expr("lk = tk and tt >= lt - interval 1 second and tt <= lt + interval 1 second"))
        .select("lk", "li", "ri", "ti")
    } -> 1,
    QueryCase("two regions that know nothing of each other", "append") { in =>
      counts(
        left(in),
        "lt",
        col("lk")
      ).select("lk", "n").union(counts(right(in), "rt", col("rk")).select("rk", "n"))
    } -> 2
  )
}
