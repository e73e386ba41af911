package org.apache.spark.sql.laneshift.api

import java.io.ByteArrayOutputStream
import java.util.Base64

import org.apache.spark.sql.laneshift.driver.{PartitionMessages, PartitionSite, QueryView, SnapshotNumbers}

/** The snapshot as the control service sends it: the bytes of a SnapshotReply, but for its time, with the queries at the end. */
private[api] object PackedSnapshot {
  private lazy val writer = new MessageWriter(ProtoFile.control)

  /** What stands for each partition of a snapshot that is to be packed. */
  def partitions(queries: Seq[QueryView], messages: PartitionMessages): PartitionSite => Written = {
    val of = messages.of(queries.flatMap(_.operators.flatten)) { site =>
      writer.message("Partition", SnapshotJson.partition(site))
    }
    site => Written(of(site))
  }

  /** `head` bytes of `content` are of no query; then come those of each of `queries`. Without content it is that of the number
    * `known`, which its caller has.
    */
  def apply(snapshot: Map[String, Any], known: Long, numbers: SnapshotNumbers): Map[String, Any] = {
    val found = snapshot("queries").asInstanceOf[Seq[Map[String, Any]]]
    val content = new ByteArrayOutputStream(1 << 16)
    content.writeBytes(writer.message("SnapshotReply", snapshot - "time_ms" - "queries"))
    val head = content.size
    val queries = found.map { query =>
      val before = content.size
      content.writeBytes(writer.field("SnapshotReply", "queries", Seq(query)))
      Named.map(name => name -> query(name)).toMap + ("bytes" -> (content.size - before))
    }
    val bytes = content.toByteArray
    val number = numbers.of(bytes, queries)
    val isKnown = number == known
    Map(
      "time_ms" -> snapshot("time_ms"),
      "number" -> number,
      "head" -> head,
      "queries" -> (if (isKnown) Nil else queries),
      "content" -> Option.unless(isKnown)(Base64.getEncoder.encodeToString(bytes))
    )
  }

  /** By what the control service tells queries apart, and their owners. */
  private val Named = Seq("id", "run_id", "name", "tenant")
}
