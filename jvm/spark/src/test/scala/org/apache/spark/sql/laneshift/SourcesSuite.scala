package org.apache.spark.sql.laneshift

import java.nio.file.Path

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.{Column, DataFrame, Dataset, Encoder, Row}
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.execution.streaming.runtime.{MemoryStream, StreamExecution, StreamingQueryWrapper}
import org.apache.spark.sql.execution.streaming.sources.RateStreamMicroBatchStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.util.ManualClock

import laneshift.testing.LimitedSuite

/** Every source of Spark's own, with stages without state above it: nothing but the jar, and under motion, give stock's rows.
  * Sources hand on rows of any kind: columns, binary rows, rows of objects.
  */
class SourcesSuite extends LimitedSuite with ElasticSession {
  import SourcesSuite._

  private lazy val files: Path = {
    val at = java.nio.file.Files.createTempDirectory("laneshift-sources")
    val rows = spark.range(600).select(
      col("id"),
      (col("id") % 7).as("k"),
      concat(lit("t"), col("id")).as("text"),
      struct(col("id").as("a"), array(col("id"), col("id") + 1).as("b")).as("nested")
    )
    def in(format: String, of: DataFrame): Unit = of.repartition(2).write.format(format).save(s"$at/$format")
    Seq("parquet", "orc", "json").foreach(in(_, rows))
    in("csv", rows.drop("nested"))
    in("text", rows.select("text"))
    rows.drop("nested").repartition(2).write.partitionBy("k").parquet(s"$at/parted")
    at
  }

  override protected def afterAll(): Unit = {
    org.apache.spark.util.Utils.tryLogNonFatalError(
      org.apache.spark.util.Utils.deleteRecursively(files.toFile)
    )
    super.afterAll()
  }

  private def file(name: String, format: String, schema: String): Source = Source(name) { () =>
    spark.readStream.schema(schema).format(format).load(s"$files/$name")
  }(_.processAllAvailable())

  private val full = "id LONG, k LONG, text STRING, nested STRUCT<a: LONG, b: ARRAY<LONG>>"
  private val flat = "id LONG, k LONG, text STRING"

  private val sources = Seq(
    file("parquet", "parquet", full),
    file("orc", "orc", full),
    file("json", "json", full),
    file("csv", "csv", flat),
    file("text", "text", "text STRING"),
    file("parted", "parquet", flat),
    file("parquet", "parquet", full).copy(name = "parquet, row by row")
      .using("spark.sql.parquet.enableVectorizedReader" -> "false"),
    Source("rate") { () =>
      spark.readStream.format("rate").options(Map(
        "rowsPerSecond" -> "200",
        "numPartitions" -> "2",
        "useManualClock" -> "true"
      )).load()
    } { query =>
      query.processAllAvailable()
      for (_ <- 1 to 2) {
        clockOf(query).advance(1000L)
        query.processAllAvailable()
      }
    },
    Source("rate-micro-batch", Trigger.AvailableNow()) { () =>
      spark.readStream.format("rate-micro-batch")
        .options(Map("rowsPerBatch" -> "300", "numPartitions" -> "2")).load()
    }(_.awaitTermination()),
    Source("memory") { () =>
      val session = spark
      import session.implicits._
      val input = MemoryStream[(Long, String)](implicitly[Encoder[(Long, String)]], spark)
      (0 until 2).foreach(b => input.addData((0L until 200L).map(i => (b * 200L + i, s"t$i"))))
      input.toDF().toDF("id", "text")
    }(_.processAllAvailable()),
    Source("two sources in a union", Trigger.AvailableNow()) { () =>
      val some = spark.readStream.schema(flat).parquet(s"$files/parquet").select("id", "text")
      val rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 300).load()
      some.union(rate.select(col("value"), upper(col("value").cast("string"))))
    }(_.awaitTermination())
  )

  /** @param seen what foreachBatch makes of a batch */
  private def run(
      source: Source,
      shape: Shape,
      seen: DataFrame => DataFrame = identity
  ): (Seq[Row], String) = withFolder { at =>
    val out = ArrayBuffer.empty[Row]
    def sink(rows: Dataset[Row], id: Long): Unit = out.synchronized { out ++= seen(rows).collect(); () }
    val query = QueryCase(shape.name, shape.mode)(shape.build)
    val running = MicroBatchRun.start(query, source.load(), at, source.trigger)(sink)
    try {
      source.feed(running)
      running.exception.foreach(throw _)
      (out.toSeq, MicroBatchRun.planOf(running))
    } finally running.stop()
  }

  for (source <- sources)
    test(s"${source.name}: stock's rows with nothing but the jar, and under motion") {
      val conf = Seq("spark.sql.adaptive.enabled" -> "false") ++ source.options
      shapes(source.load()).foreach { shape =>
        val (stock, plan) = withConf(ElasticSession.Stock ++ conf: _*)(run(source, shape))
        assert(stock.nonEmpty && !plan.contains("Elastic ["), plan)
        for (
          options <- Seq(Nil, ElasticSession.moving(seed = 8) :+ "spark.sql.laneshift.stateless" -> "true")
        ) {
          val (elastic, plan) = withConf(options ++ conf: _*)(run(source, shape))
          PairCheck.sameRows(s"${shape.name} with $options", stock, elastic)
          assert(plan.contains("Elastic ["), s"${shape.name} with $options is not elastic:\n$plan")
        }
      }
    }

  test("the file of each row, many in a partition, as asked for above the lanes and by foreachBatch") {
    withFolder { at =>
      spark.range(4000).select(
        concat(col("id"), lit(" of "), col("id") % 20).as("text"),
        (col("id") % 20).as("of")
      )
        .repartition(20, col("of")).write.partitionBy("of").text(s"$at/in")
      def named = regexp_extract(input_file_name(), "of=(\\d+)", 1)
      val source = Source("text") { () =>
        spark.readStream.schema("value STRING, of LONG").text(s"$at/in")
      }(_.processAllAvailable())
      val shape = Shape("named", "append") {
        _.where(upper(col("value")) =!= "").select(col("value"), named.as("above"))
      }
      def of(options: Seq[(String, String)]) =
        withConf(options: _*)(run(source, shape, _.withColumn("beside", named)))
      val stock = of(ElasticSession.Stock)
      val moving = of(ElasticSession.moving(seed = 8) :+ "spark.sql.laneshift.stateless" -> "true")
      assert(moving._2.contains("Elastic ["), moving._2)
      for ((rows, _) <- Seq(stock, moving))
        rows.foreach { row =>
          val its = row.getString(0).split(" of ")(1)
          assert(row.getString(1) == its && row.getString(2) == its, row)
        }
      PairCheck.sameRows("named", stock._1, moving._1)
    }
  }
}

private object SourcesSuite {

  /** @param feed brings the query all rows and waits until it has answered them */
  final case class Source(name: String, trigger: Trigger = Trigger.ProcessingTime(0L))(
      val load: () => DataFrame
  )(val feed: StreamingQuery => Unit, val options: Seq[(String, String)] = Nil) {
    def copy(name: String): Source = new Source(name, trigger)(load)(feed, options)
    def using(more: (String, String)*): Source = new Source(name, trigger)(load)(feed, options ++ more)
  }

  final case class Shape(name: String, mode: String)(val build: DataFrame => DataFrame)

  private val thrice = udf((n: Long) => n * 3)

  /** What stands above a source: each costs enough to be worth lanes. */
  def shapes(of: DataFrame): Seq[Shape] = {
    def has(name: String) = of.columns.contains(name)
    val text: Column = if (has("text")) col("text") else col("value").cast("string")
    val number: Column =
      if (has("id")) col("id") else if (has("value")) col("value") else length(text).cast("long")
    Seq(
      Shape("functions and a filter", "append") {
        _.where(hash(number) % 3 =!= 0).select(upper(text).as("u"), thrice(number).as("n"))
      },
      Shape("an aggregation", "update")(_.groupBy((hash(number) % 5).as("g")).count())
    ) ++ Option.when(has("nested")) {
      Shape(
        "nested fields",
        "append"
      )(_.select(explode(col("nested.b")).as("e"), thrice(col("nested.a")).as("n")))
    }
  }

  /** The clock of the rate source that the query reads, after its first look for rows. */
  def clockOf(query: StreamingQuery): ManualClock =
    query
      .asInstanceOf[StreamingQueryWrapper]
      .streamingQuery
      .asInstanceOf[StreamExecution]
      .logicalPlan
      .collectFirst {
        case StreamingDataSourceV2ScanRelation(_, _, _, stream: RateStreamMicroBatchStream, _, _) =>
          // Public in the class file only.
          stream.getClass.getMethod("clock").invoke(stream).asInstanceOf[ManualClock]
      }
      .get
}
