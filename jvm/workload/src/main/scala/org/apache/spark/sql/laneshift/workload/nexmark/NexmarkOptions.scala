package org.apache.spark.sql.laneshift.workload.nexmark

import java.util.Locale

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.laneshift.workload.{
  OptionReader,
  RateOptions,
  WorkloadOptionException,
  WorkloadSpec
}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The options of one use of the source, read and checked. `docs/workload.md` explains them.
  *
  * @param start when event 0 is due (microseconds since 1970), if set
  * @param paced whether a row waits until it is due
  * @param rowsPerBatch the table's part of `eventsPerBatch`
  * @param identity by option, all that decides what the rows are; must not change while a checkpoint lives
  */
private[nexmark] final case class NexmarkOptions(
    rows: NexmarkSpec,
    start: Option[Long],
    paced: Boolean,
    rowsPerBatch: Option[Long],
    identity: Seq[(String, String)]
) {
  def startingAt(micros: Long): NexmarkSpec = rows.copy(startMicros = micros)

  override def toString: String =
    identity.map { case (k, v) => s"$k=$v" }.mkString(s"${NexmarkSpec.Source}[", ", ", "]")
}

private[nexmark] object NexmarkOptions {

  /** Every option, in the order of the documentation. */
  val Known: Seq[String] = Seq(
    "table",
    "hotAuctions",
    "hotBidders",
    "hotSellers",
    "extraBytes",
    "seed",
    "numPartitions",
    "startTime",
    "rate",
    "rowsPerSecond",
    "ratePeriod",
    "rateAmplitude",
    "rateStages",
    "rateTrace",
    "pacing",
    "eventsPerBatch",
    "totalEvents"
  )

  private val MaxEvents = 1000000000000L

  def parse(options: CaseInsensitiveStringMap, hadoop: => Configuration): NexmarkOptions = {
    val read = new OptionReader(options, NexmarkSpec.Source)
    read.rejectUnknown(Known)

    val table = tableOf(read)
    val hot = HotShares(
      read.number("hotAuctions", 0.5, 0, 1),
      read.number("hotBidders", 0.75, 0, 1),
      read.number("hotSellers", 0.75, 0, 1)
    )
    val extra = read.whole("extraBytes", 16, 0, 1 << 20).toInt
    val seed = read.whole("seed", 0, Long.MinValue, Long.MaxValue)
    val partitions = read.whole("numPartitions", 2, 1, 10000).toInt
    val start = read.startTime
    val (schedule, rate) = new RateOptions(read, hadoop).schedule(seed)
    val pacing = read.choice("pacing", "scheduled", Seq("scheduled", "none"))
    val wayOut = "without it a batch takes the rows that are due"
    val perBatch = read.wholeIfSet("eventsPerBatch", NexmarkTable.Epoch, MaxEvents, wayOut)
    perBatch.filter(_ % NexmarkTable.Epoch != 0).foreach { n =>
      read.fail("eventsPerBatch", n.toString, s"a multiple of ${NexmarkTable.Epoch}", wayOut)
    }
    if (perBatch.isDefined && pacing == "scheduled")
      read.reject("pacing", "eventsPerBatch fixes the rows of a batch whatever the clock says")
    val total = read.wholeIfSet("totalEvents", 1, MaxEvents, "without it the source never ends")

    val identity = Seq(
      "table" -> table.name,
      "hotAuctions" -> hot.auctions.toString,
      "hotBidders" -> hot.bidders.toString,
      "hotSellers" -> hot.sellers.toString,
      "extraBytes" -> extra.toString,
      "seed" -> seed.toString,
      "numPartitions" -> partitions.toString,
      "rate" -> rate
    )
    val spec = NexmarkSpec(
      table,
      schedule,
      partitions,
      seed,
      hot,
      extra,
      start.getOrElse(0L),
      total.getOrElse(WorkloadSpec.Endless)
    )
    NexmarkOptions(
      spec,
      start,
      pacing == "scheduled" && perBatch.isEmpty,
      perBatch.map(_ / NexmarkTable.Epoch * table.count),
      identity
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
