package org.apache.spark.sql.laneshift.workload.nexmark

import java.nio.file.{Files, Path}
import java.sql.Timestamp

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.functions.{col, count, max, min}
import org.apache.spark.sql.laneshift.workload.{MadeUpOptions, WorkloadOptionException, WorkloadSession}
import org.apache.spark.sql.streaming.{StreamingQueryException, Trigger}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import laneshift.testing.{Deep, DeepSuite}

class NexmarkSuite extends WorkloadSession with DeepSuite {
  override def room: Deep = Deep.Pairs

  private val Events = 20000L
  private val Options = Map(
    "seed" -> "5",
    "numPartitions" -> "3",
    "startTime" -> "2026-01-01T00:00:00Z",
    "rowsPerSecond" -> "5000",
    "totalEvents" -> Events.toString
  )

  private def parse(options: (String, String)*): MadeUpOptions[NexmarkSpec] =
    NexmarkOptions.parse(new CaseInsensitiveStringMap(options.toMap.asJava), new Configuration(false))

  private def spec(table: String): NexmarkSpec = {
    val parsed = parse((Options + ("table" -> table)).toSeq: _*)
    parsed.rows.startingAt(parsed.start.get)
  }

  private def read(table: String, more: (String, String)*): DataFrame =
    spark.read.format("laneshift-nexmark").options(Options + ("table" -> table) ++ more).load()

  private def streamed(table: String, more: (String, String)*): DataFrame =
    spark.readStream.format("laneshift-nexmark").options(Options + ("table" -> table) ++ more).load()

  private def texts(rows: Seq[Row]): Seq[String] = rows.map(_.toString).sorted

  test("each event is a row of one table, in the standard's proportions") {
    for (events <- Seq(0L, 1L, 3L, 4L, 49L, 50L, 51L, 54L, 12345L)) {
      val rows = NexmarkTable.All.map(table => (0L until table.rowsOf(events)).map(table.event))
      assert(rows.flatten.sorted == (0L until events))
    }
    assert(NexmarkTable.All.map(_.rowsOf(5000)) == Seq(100, 300, 4600))
  }

  test("a row follows from its number alone") {
    for (table <- NexmarkTable.All; partition <- 0 until 3) {
      val options = spec(table.name)
      val last = options.dealt(options.totalRows, partition).toInt
      def row(rows: NexmarkRows, seq: Long): UnsafeRow = rows(seq, rows.dueMicros(seq)).copy()
      val once = NexmarkRows.of(options, partition)
      val all = (0 until last).map(row(once, _))
      val again = NexmarkRows.of(options, partition)
      val backwards = (0 until last by 7).reverse.map(seq => seq -> row(again, seq))
      assert(backwards.forall { case (seq, found) => found == all(seq) })
      assert(all.forall(r => !(0 until table.schema.length).exists(r.isNullAt)))
    }
  }

  test("the seed and the shares matter") {
    val bids = texts(read("bid").collect().toSeq)
    assert(bids.length == Events / 50 * 46)
    assert(bids == texts(read("bid").collect().toSeq))
    assert(bids != texts(read("bid", "seed" -> "6").collect().toSeq))
    assert(bids != texts(read("bid", "hotAuctions" -> "0.4").collect().toSeq))
    assert(bids != texts(read("bid", "hotBidders" -> "0.4").collect().toSeq))
    assert(texts(read("auction").collect().toSeq) != texts(read(
      "auction",
      "hotSellers" -> "0"
    ).collect().toSeq))
  }

  test("partitions change who reads a row, not the row") {
    for (table <- NexmarkTable.All)
      assert(
        texts(read(
          table.name,
          "numPartitions" -> "1"
        ).collect().toSeq) == texts(read(table.name).collect().toSeq)
      )
  }

  test("ids count up, and bids are for auctions and by people that are there, about") {
    val people = read("person").select("id").collect().map(_.getLong(0)).sorted
    assert(people.toSeq == (1000L until 1000L + Events / 50))
    val auctions = read("auction").select("id").collect().map(_.getLong(0)).sorted
    assert(auctions.toSeq == (1000L until 1000L + Events / 50 * 3))
    val ranges = read("bid").agg(
      min("auction"),
      max("auction"),
      min("bidder"),
      max("bidder"),
      min("price"),
      max("price")
    ).head()
    assert(ranges.getLong(0) >= 1000 && ranges.getLong(1) <= auctions.last + 10)
    assert(ranges.getLong(2) >= 1000 && ranges.getLong(3) <= people.last + 10)
    assert(ranges.getLong(4) >= 100 && ranges.getLong(5) <= 100000000)
    val sellers = read("auction").agg(min("seller"), max("seller"), min("category"), max("category")).head()
    assert(sellers.getLong(0) >= 1000 && sellers.getLong(1) <= people.last + 10)
    assert(sellers.getLong(2) == 10 && sellers.getLong(3) == 14)
  }

  test("times are those of the schedule, and an auction is open for a while") {
    val last = read("bid").agg(min("date_time"), max("date_time")).head()
    val start = Timestamp.from(java.time.Instant.parse("2026-01-01T00:00:00Z")).getTime
    assert(last.getTimestamp(0).getTime == start) // event 4, after 0.8 ms
    assert(last.getTimestamp(1).getTime == start + (Events - 1) * 1000 / 5000)
    val open =
      read("auction").select((col("expires").cast("double") - col("date_time").cast("double")).as("s"))
    val seconds = open.collect().map(_.getDouble(0))
    val horizon = 100 * 50 / 3 / 5000.0 // a hundred auctions later
    assert(seconds.min > 0 && seconds.max <= 2 * horizon + 0.001)
    assert(math.abs(seconds.sum / seconds.length - horizon) < 0.1 * horizon)
  }

  test("the hot ones get their share, and others become hot") {
    def hottest(table: String, key: String, more: (String, String)*): (Double, Int) = {
      val rows =
        read(table, more: _*).groupBy(key).agg(count("*").as("n")).collect().map(_.getLong(1)).sorted.reverse
      val hot = rows.takeWhile(_ > rows.sum / 50.0)
      (hot.sum.toDouble / rows.sum, hot.length)
    }
    // 1,200 auctions make 12 hot ones, 400 people 4; the others' draws fall on them now and then, too.
    val (auctions, hotAuctions) = hottest("bid", "auction")
    assert(hotAuctions == 12 && auctions > 0.48 && auctions < 0.55)
    val (bidders, hotBidders) = hottest("bid", "bidder", "hotBidders" -> "0.6")
    assert(hotBidders == 4 && bidders > 0.58 && bidders < 0.65)
    assert(hottest("bid", "bidder", "hotBidders" -> "0")._2 == 0)
    assert(hottest("auction", "seller", "hotSellers" -> "1") == (1.0, 4))
  }

  test("a stream gives the rows of the batch read, across a restart") {
    for (table <- NexmarkTable.All) {
      val checkpoint = folder()
      val df = streamed(table.name, "eventsPerBatch" -> "2000")
      val first = start(df, Trigger.ProcessingTime(0), checkpoint)
      val before = first.stopAfter(80 * table.count)
      assert(first.taken.forall(n => n == 40 * table.count || n == 0))
      val after = start(df, Trigger.AvailableNow(), checkpoint).await()
      assert(before.nonEmpty && after.nonEmpty)
      assert(texts(before ++ after).distinct == texts(read(table.name).collect().toSeq))
    }
  }

  test("Real-time Mode gives the same rows") {
    val rows =
      start(streamed("auction"), Trigger.RealTime("1 second"), mode = "update").stopAfter(Events / 50 * 3)
    assert(texts(rows) == texts(read("auction").collect().toSeq))
  }

  test("a restart with other rows is refused") {
    val checkpoint = folder()
    start(streamed("person"), Trigger.AvailableNow(), checkpoint).await()
    for (
      (more, said) <- Seq(
        ("hotSellers" -> "0.5", "'hotSellers' was '0.75' and is '0.5'"),
        ("table" -> "bid", "'table' was 'person' and is 'bid'")
      )
    ) {
      val query = start(streamed("person", more), Trigger.AvailableNow(), checkpoint).query
      val failure = intercept[StreamingQueryException](query.awaitTermination(60000))
      assert(failure.getCause.getMessage.contains(said))
    }
  }

  test("wrong options are refused, with the way out") {
    def refused(options: (String, String)*): String =
      intercept[WorkloadOptionException](parse(options: _*)).getMessage
    assert(refused().contains("needs the option 'table', one of person, auction, bid"))
    assert(refused("table" -> "bids").contains("one of person, auction, bid"))
    assert(refused("table" -> "bid", "hotAuctions" -> "1.1").contains("a number from 0 to 1"))
    assert(refused("table" -> "bid", "eventsPerBatch" -> "75").contains("a multiple of 50"))
    assert(refused(
      "table" -> "bid",
      "eventsPerBatch" -> "100",
      "pacing" -> "scheduled"
    ).contains("whatever the clock says"))
    assert(refused("table" -> "bid", "keys" -> "10").contains("has no option 'keys'"))
    val endless = intercept[WorkloadOptionException](
      spark.read.format("laneshift-nexmark").option("table", "bid").load().collect()
    )
    assert(endless.getMessage.contains("set the option totalEvents"))
  }

  test("every option is in docs/workload.md") {
    val docs = Files.readString(Path.of(System.getProperty("laneshift.repo"), "docs", "workload.md"))
    val nexmark = docs.substring(docs.indexOf("## NEXMark's auctions"), docs.indexOf("## `laneshift_cost"))
    assert(NexmarkOptions.Known.filterNot(name => nexmark.contains(s"`$name`")).isEmpty)
  }
}
