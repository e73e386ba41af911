package org.apache.spark.sql.laneshift.workload

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The options of one use of the source, read and checked. `docs/workload.md` explains them.
  *
  * @param start microseconds since 1970; none means the moment at which the query first starts
  * @param paced whether a row waits until it is due
  * @param rowsPerBatch rows of every micro-batch, whatever the clock says
  * @param maxRowsPerTrigger most rows of a micro-batch
  * @param identity by option, all that decides what the rows are; must not change while a checkpoint lives
  */
private[workload] final case class WorkloadOptions(
    rows: WorkloadSpec,
    start: Option[Long],
    paced: Boolean,
    rowsPerBatch: Option[Long],
    maxRowsPerTrigger: Option[Long],
    identity: Seq[(String, String)]
) {
  def startingAt(micros: Long): WorkloadSpec = rows.copy(startMicros = micros)

  def bounded: Boolean = rows.bounded

  override def toString: String =
    identity.map { case (k, v) => s"$k=$v" }.mkString(s"${WorkloadSpec.Source}[", ", ", "]")
}

private[workload] object WorkloadOptions {

  /** Every option, in the order of the documentation. */
  val Known: Seq[String] = Seq(
    "keys",
    "zipf",
    "omega",
    "rowBytes",
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
    "rowsPerBatch",
    "maxRowsPerTrigger",
    "totalRows"
  )

  private val MaxRows = 1000000000000L

  def parse(options: CaseInsensitiveStringMap, hadoop: => Configuration): WorkloadOptions = {
    val read = new OptionReader(options, WorkloadSpec.Source)
    read.rejectUnknown(Known)

    val keys = read.whole("keys", 10000, 1, 10000000).toInt
    val zipf = read.number("zipf", 0.5, 0, 10)
    val omega = read.number("omega", 0, 0, 60000)
    val payload = read.whole("rowBytes", 128, 0, 16 << 20).toInt
    val seed = read.whole("seed", 0, Long.MinValue, Long.MaxValue)
    val partitions = read.whole("numPartitions", 2, 1, 10000).toInt
    val start = read.startTime
    val (schedule, rate) = new RateOptions(read, hadoop).schedule(seed)
    val pacing = read.choice("pacing", "scheduled", Seq("scheduled", "none"))
    val perBatch =
      read.wholeIfSet("rowsPerBatch", 1, MaxRows, "without it a batch takes the rows that are due")
    val perTrigger =
      read.wholeIfSet("maxRowsPerTrigger", 1, MaxRows, "without it a batch takes all rows that are due")
    val total = read.wholeIfSet("totalRows", 1, MaxRows, "without it the source never ends")
    if (perBatch.isDefined) {
      read.reject("maxRowsPerTrigger", "rowsPerBatch already fixes the rows of a batch")
      if (pacing == "scheduled")
        read.reject("pacing", "rowsPerBatch fixes the rows of a batch whatever the clock says")
    }

    val identity = Seq(
      "keys" -> keys.toString,
      "zipf" -> zipf.toString,
      "omega" -> omega.toString,
      "rowBytes" -> payload.toString,
      "seed" -> seed.toString,
      "numPartitions" -> partitions.toString,
      "rate" -> rate
    )
    val spec = WorkloadSpec(
      keys,
      zipf,
      omega,
      payload,
      schedule,
      partitions,
      seed,
      start.getOrElse(0L),
      total.getOrElse(WorkloadSpec.Endless)
    )
    WorkloadOptions(spec, start, pacing == "scheduled" && perBatch.isEmpty, perBatch, perTrigger, identity)
  }
}
