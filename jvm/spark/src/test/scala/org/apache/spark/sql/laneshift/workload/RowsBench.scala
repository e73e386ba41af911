package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.SparkSession

/** Rows per second that one core makes, and how exact the row costs are. Not a test: `scripts/sbt
  * "spark/Test/runMain org.apache.spark.sql.laneshift.workload.RowsBench"`.
  */
object RowsBench {

  def main(arguments: Array[String]): Unit = {
    val base = WorkloadSpec(
      keys = 10000,
      zipf = 0.5,
      omega = 0,
      payloadBytes = 0,
      RateFunctions.constant(1e6),
      partitions = 2,
      seed = 1,
      startMicros = 0,
      totalRows = WorkloadSpec.Endless
    )
    val variants = Seq(
      "no payload" -> base,
      "128 B payload" -> base.copy(payloadBytes = 128),
      "1 M keys" -> base.copy(keys = 1000000, zipf = 1.0),
      "shuffles, sine" -> base.copy(omega = 60, schedule = RateFunctions.sine(1e6, 0.5, 60000000)),
      "2 KB payload" -> base.copy(payloadBytes = 2048)
    )
    for ((name, spec) <- variants; paced <- Seq(false, true)) {
      val rates = (1 to 4).map(_ => measure(spec, paced, 5000000L)).drop(1)
      println(f"$name%-16s ${if (paced) "real-time" else "micro-batch"}%-12s ${rates.max / 1e6}%.1f M rows/s")
    }
    for (bytes <- Seq(0, 128)) throughSpark(bytes)
    for (
      mode <- RowCost.Modes; (threads, micros) <- Seq(1 -> 1000, 1 -> 20, 32 -> 1000)
      if mode != "spin" || threads == 1
    )
      costs(mode, threads, micros)
  }

  private def throughSpark(bytes: Int): Unit = {
    val spark = SparkSession.builder().master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try {
      val rows = 10000000L
      val options = Map("totalRows" -> rows, "rowBytes" -> bytes.toLong, "numPartitions" -> 1L)
      val df =
        spark.read.format("laneshift-workload").options(options.view.mapValues(_.toString).toMap).load()
      val rates = (1 to 3).map { _ =>
        val start = System.nanoTime()
        df.selectExpr(
          "sum(key)",
          "sum(seq)",
          "sum(value)",
          "max(event_time)",
          "sum(length(payload))"
        ).collect()
        rows * 1e9 / (System.nanoTime() - start)
      }
      println(f"$bytes B payload, a Spark task that sums every column: ${rates.max / 1e6}%.1f M rows/s")
    } finally spark.stop()
  }

  private def costs(mode: String, threads: Int, micros: Int): Unit = {
    val rows = 3000000 / micros
    val start = System.nanoTime()
    val all = (1 to threads).map { _ =>
      new Thread(() => (1 to rows).foreach(_ => RowCost.spend(micros, RowCost.Modes.indexOf(mode))))
    }
    all.foreach(_.start())
    all.foreach(_.join())
    val perRow = (System.nanoTime() - start) / 1e3 / rows
    println(f"$mode%-5s $threads%2d threads, $micros%4d us a row: took $perRow%.2f us a row")
  }

  private def measure(spec: WorkloadSpec, paced: Boolean, rows: Long): Double = {
    val reader = new WorkloadReader(spec, paced, WorkloadInputPartition(0, 0, rows))
    var check = 0L
    val start = System.nanoTime()
    if (paced) {
      while (reader.nextWithTimeout(System.currentTimeMillis(), 0L).hasRecord)
        check ^= reader.get().getLong(0)
    } else while (reader.next()) check ^= reader.get().getLong(0)
    val elapsed = System.nanoTime() - start
    if (check == 42) println("") // keeps the loop
    rows * 1e9 / elapsed
  }
}
