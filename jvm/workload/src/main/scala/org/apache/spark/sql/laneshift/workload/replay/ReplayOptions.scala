package org.apache.spark.sql.laneshift.workload.replay

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.laneshift.workload.{
  OptionReader,
  RateOptions,
  RateSchedule,
  WorkloadOptionException
}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The options of one use of the source, read and checked. `docs/workload.md` explains them.
  *
  * @param rate what the checkpoint says of the schedule
  * @param start when row 0 is due (microseconds since 1970), if set
  * @param paced whether a row waits until it is due
  * @param maxRowsPerTrigger most rows of a micro-batch
  */
private[replay] final case class ReplayOptions(
    files: ReplayFiles,
    schedule: RateSchedule,
    rate: String,
    partitions: Int,
    partitionBy: Option[String],
    sentColumn: Option[String],
    start: Option[Long],
    paced: Boolean,
    maxRowsPerTrigger: Option[Long]
)

private[replay] object ReplayOptions {

  val Source = "laneshift-replay"

  /** Every option, in the order of the documentation. */
  val Known: Seq[String] = Seq("path", "numPartitions", "partitionBy") ++ RateOptions.Names ++
    Seq("sentColumn", "startTime", "pacing", "maxRowsPerTrigger")

  def parse(options: CaseInsensitiveStringMap, hadoop: => Configuration): ReplayOptions = {
    val read = new OptionReader(options, Source, Known)
    val (schedule, rate) = new RateOptions(read, hadoop).schedule(seed = 0)
    val path = read.text("path").filter(_.nonEmpty).getOrElse(
      throw new WorkloadOptionException(
        s"$Source needs the option 'path', a Parquet or JSON-lines file or a folder of such files."
      )
    )
    ReplayOptions(
      ReplayFiles.find(path, hadoop),
      schedule,
      rate.stripPrefix("constant "), // as checkpoints had it when there was no other rate
      read.partitions(1000),
      read.text("partitionBy"),
      read.text("sentColumn"),
      read.startTime,
      read.paced(),
      read.batchLimit("maxRowsPerTrigger", takes = "all rows", most = ReplayFiles.MaxRows)
    )
  }
}
