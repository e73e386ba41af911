package org.apache.spark.sql.laneshift.workload.nexmark

import java.util.Locale

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.laneshift.workload.{
  MadeUpOptions,
  MadeUpProvider,
  OptionReader,
  RateOptions,
  WorkloadOptionException
}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** `format("laneshift-nexmark")`. */
class NexmarkProvider extends MadeUpProvider(NexmarkSpec.Source) {
  override protected def parse(options: CaseInsensitiveStringMap, hadoop: => Configuration) =
    NexmarkOptions.parse(options, hadoop)
}

private[nexmark] object NexmarkOptions {

  /** Every option, in the order of the documentation. */
  val Known: Seq[String] =
    Seq(
      "table",
      "hotAuctions",
      "hotBidders",
      "hotSellers",
      "extraBytes",
      "seed",
      "numPartitions",
      "startTime"
    ) ++
      RateOptions.Names ++ Seq("pacing", "eventsPerBatch", "totalEvents")

  def parse(options: CaseInsensitiveStringMap, hadoop: => Configuration): MadeUpOptions[NexmarkSpec] = {
    val read = new OptionReader(options, NexmarkSpec.Source, Known)
    val table = tableOf(read)
    val hot = HotShares(
      read.number("hotAuctions", 0.5, 0, 1),
      read.number("hotBidders", 0.75, 0, 1),
      read.number("hotSellers", 0.75, 0, 1)
    )
    val seed = read.seed
    val (schedule, rate) = new RateOptions(read, hadoop).schedule(seed)
    val rows = NexmarkSpec(
      table,
      schedule,
      read.partitions(10000),
      seed,
      hot,
      read.whole("extraBytes", 16, 0, 1 << 20).toInt,
      startMicros = 0L,
      read.end("totalEvents")
    )
    val perBatch = read.batchLimit("eventsPerBatch", of = NexmarkTable.Epoch)
    MadeUpOptions(
      rows,
      read.startTime,
      read.paced(perBatch.map(_ => "eventsPerBatch")),
      Seq("eventsPerBatch" -> perBatch.map(_ / NexmarkTable.Epoch * table.count)),
      "totalEvents",
      Seq(
        "table" -> table.name,
        "hotAuctions" -> hot.auctions.toString,
        "hotBidders" -> hot.bidders.toString,
        "hotSellers" -> hot.sellers.toString,
        "extraBytes" -> rows.extraBytes.toString,
        "seed" -> seed.toString,
        "numPartitions" -> rows.partitions.toString,
        "rate" -> rate
      )
    )
  }

  private def tableOf(read: OptionReader): NexmarkTable = {
    val names = NexmarkTable.All.map(_.name).mkString(", ")
    val name = read.text("table").getOrElse(
      throw new WorkloadOptionException(s"${NexmarkSpec.Source} needs the option 'table', one of $names.")
    )
    NexmarkTable.All.find(_.name == name.toLowerCase(Locale.ROOT)).getOrElse(
      read.fail("table", name, s"one of $names", "it has no default")
    )
  }
}
