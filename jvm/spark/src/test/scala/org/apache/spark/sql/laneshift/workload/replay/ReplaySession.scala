package org.apache.spark.sql.laneshift.workload.replay

import java.nio.file.{Files, Path}

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.laneshift.workload.WorkloadSession
import org.apache.spark.sql.streaming.StreamingQueryException

/** A folder of three small files and short cuts to replay it. */
trait ReplaySession extends WorkloadSession {

  protected val Rows = 3000
  protected val Keys = 7

  /** What the files hold, in order: a running number, a key (sometimes null), a word. */
  protected lazy val expected: Seq[Row] = (0 until Rows).map(i => Row(i, key(i), s"word ${i % 11}"))

  private def key(i: Int): String = if (i % 50 == 0) null else s"k${i * i % Keys}"

  protected lazy val parquet: Path = {
    val target = folder()
    for (part <- 0 until 3) {
      val rows = spark
        .range(part * 1000L, part * 1000L + 1000, 1, 1)
        .selectExpr(
          "int(id) AS n",
          s"if(id % 50 = 0, null, concat('k', id * id % $Keys)) AS key",
          "concat('word ', id % 11) AS word"
        )
      val once = folder()
      rows.write.mode("overwrite").parquet(once.toString)
      val file = Files.list(once).filter(_.toString.endsWith(".parquet")).findFirst().get()
      Files.copy(file, target.resolve(s"part-$part of 3.parquet"))
    }
    Files.createFile(target.resolve("_SUCCESS"))
    target
  }

  protected def json(lines: String*): Path =
    Files.writeString(folder().resolve("rows.jsonl"), lines.mkString("\n"))

  protected def replay(path: Path, options: (String, String)*): DataFrame =
    spark.readStream
      .format("laneshift-replay")
      .options((options :+ ("path" -> path.toString)).toMap)
      .load()

  protected def inOrder(rows: Seq[Row]): Seq[Row] = rows.sortBy(_.getInt(0))

  protected def failure(run: Started): Throwable =
    intercept[StreamingQueryException](run.query.awaitTermination(60000)).getCause
}
