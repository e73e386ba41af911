package org.apache.spark.sql.laneshift.workload

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The options of one use of a source of made-up rows, read and checked. `docs/workload.md` explains them.
  *
  * @param start when row 0 is due, microseconds since 1970; none means the moment at which the query first starts
  * @param paced whether a row waits until it is due
  * @param limits the options that limit a micro-batch, and the most rows that each asks for; one is set at most
  * @param end the option that gives the source an end
  * @param identity by option, all that decides what the rows are; must not change while a checkpoint lives
  */
private[workload] final case class MadeUpOptions[+R <: MadeUpRows](
    rows: R,
    start: Option[Long],
    paced: Boolean,
    limits: Seq[(String, Option[Long])],
    end: String,
    identity: Seq[(String, String)]
) {
  def batchLimit: Option[Long] = limits.flatMap(_._2).headOption

  override def toString: String =
    identity.map { case (k, v) => s"$k=$v" }.mkString(s"${rows.source}[", ", ", "]")
}

private[workload] object WorkloadOptions {

  /** Every option, in the order of the documentation. */
  val Known: Seq[String] =
    Seq("keys", "zipf", "omega", "rowBytes", "seed", "numPartitions", "startTime") ++ RateOptions.Names ++
      Seq("pacing", "rowsPerBatch", "maxRowsPerTrigger", "totalRows")

  def parse(options: CaseInsensitiveStringMap, hadoop: => Configuration): MadeUpOptions[WorkloadSpec] = {
    val read = new OptionReader(options, WorkloadSpec.Source, Known)
    val seed = read.seed
    val (schedule, rate) = new RateOptions(read, hadoop).schedule(seed)
    val rows = WorkloadSpec(
      read.whole("keys", 10000, 1, 10000000).toInt,
      read.number("zipf", 0.5, 0, 10),
      read.number("omega", 0, 0, 60000),
      read.whole("rowBytes", 128, 0, 16 << 20).toInt,
      schedule,
      read.partitions(10000),
      seed,
      startMicros = 0L,
      read.end("totalRows")
    )
    val perBatch = read.batchLimit("rowsPerBatch")
    val perTrigger = read.batchLimit("maxRowsPerTrigger", takes = "all rows")
    if (perBatch.isDefined)
      read.reject("maxRowsPerTrigger", "rowsPerBatch already fixes the rows of a batch")
    MadeUpOptions(
      rows,
      read.startTime,
      read.paced(perBatch.map(_ => "rowsPerBatch")),
      Seq("rowsPerBatch" -> perBatch, "maxRowsPerTrigger" -> perTrigger),
      "totalRows",
      Seq(
        "keys" -> rows.keys.toString,
        "zipf" -> rows.zipf.toString,
        "omega" -> rows.omega.toString,
        "rowBytes" -> rows.payloadBytes.toString,
        "seed" -> seed.toString,
        "numPartitions" -> rows.partitions.toString,
        "rate" -> rate
      )
    )
  }
}
