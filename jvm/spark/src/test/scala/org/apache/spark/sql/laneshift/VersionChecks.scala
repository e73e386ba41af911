package org.apache.spark.sql.laneshift

import java.nio.file.Path

import org.scalatest.Assertions._

import org.apache.spark.sql.functions._

/** A query whose state Spark's data source reads.
  *
  * @param parts options to ask for its rows, one set for each time
  * @param dated whether its operator says from which batch on it has how many partitions
  */
final case class VersionCase(query: QueryCase, parts: Seq[Map[String, String]], dated: Boolean)

/** What Spark's state data sources find in a checkpoint as of a take-over, the batch before it and the one behind it. */
object VersionChecks {
  private val chunks = (0 until 5).map(i => TestInput.rows(seed = 71, i * 200L, 200))

  /** 3 partitions at first. */
  private val changes = Map(2 -> 5, 4 -> 2)

  val sums: VersionCase = VersionCase(
    QueryCase("sums", "update")(_.groupBy("key").agg(count("*"), sum("value"))),
    Seq(Map.empty),
    dated = false
  )

  val variables: VersionCase = VersionCase(
    TransformWithStatePairSuite.cases.head,
    Seq(Map("stateVarName" -> "total")),
    dated = true
  )

  def join(dated: Boolean): VersionCase = VersionCase(
    QueryCase("join", "append")(JoinCases.join("left_outer")(_)),
    Seq("left", "right").map(side => Map("joinSide" -> side)),
    dated
  )

  private type Life = RescaleRun => Seq[Seq[TestInput]] => RescaleResult

  /** @param rows by partition, as text */
  private final case class Version(batch: Long, takesOver: Boolean, rows: Seq[String], metadata: Seq[String])

  private def versions(session: ElasticSession, of: VersionCase, options: Seq[(String, String)])(
      life: Life
  ): Seq[Version] = session.withFolder { at =>
    session.withConf(options: _*) {
      val withRows = life(new RescaleRun(session.spark, of.query, at, changes))(chunks).batches.keySet
      val takeOvers = MicroBatchRun.committed(at).filterNot(withRows)
      takeOvers.flatMap(b => Seq(b - 1, b, b + 1)).distinct.map(b =>
        Version(b, takeOvers.contains(b), rows(session, of, at, b), metadata(session, at, b))
      )
    }
  }

  private def rows(session: ElasticSession, of: VersionCase, at: Path, batch: Long): Seq[String] =
    of.parts.flatMap { part =>
      val found =
        session.spark.read.format("statestore").options(part).option("batchId", batch).load(at.toString)
      // Not as JSON: Spark's rows of a join in state format 3 have a field more than their schema says.
      found.select("partition_id", found.columns.filter(_ != "partition_id").toSeq: _*)
        .collect().map(r => s"${part.values.mkString}/${r.get(0)}: ${r.toSeq.tail.mkString(" ")}")
    }.sorted

  private def metadata(session: ElasticSession, at: Path, batch: Long): Seq[String] =
    session.spark.read.format("state-metadata").option("batchId", batch).load(at.toString)
      .selectExpr("operatorId", "operatorName", "stateStoreName", "numPartitions", "operatorProperties")
      .collect().map(_.toString).toSeq.sorted

  private def withoutPartition(rows: Seq[String]): Seq[String] =
    rows.map(_.replaceFirst("/\\d+: ", ": ")).sorted

  /** As with Spark's own repartition: the same rows in the same partitions, and the same said of the operators. */
  def sameAsStock(session: ElasticSession, of: VersionCase, more: (String, String)*)(
      life: Life = _.live
  ): Unit = {
    val stock = versions(session, of, ElasticSession.Stock ++ more)(_.stock)
    val ours = versions(session, of, ElasticSession.moving(71L) ++ more)(life)
    assert(stock.map(v => (v.batch, v.takesOver)) == ours.map(v => (v.batch, v.takesOver)), "batches")
    assert(ours.count(_.takesOver) == changes.size)
    stock.zip(ours).foreach { case (a, b) =>
      assert(a.rows == b.rows, s"rows as of batch ${a.batch}")
      assert(a.metadata == b.metadata, s"metadata as of batch ${a.batch}")
    }
    ours.zip(ours.drop(1)).filter(_._2.takesOver).zip(changes.toSeq.sorted.map(_._2)).foreach {
      case ((before, after), partitions) =>
        assert(before.rows.nonEmpty && withoutPartition(before.rows) == withoutPartition(after.rows))
        assert(!of.dated || after.metadata.forall(_.contains(s",$partitions,")), after.metadata)
    }
  }
}
