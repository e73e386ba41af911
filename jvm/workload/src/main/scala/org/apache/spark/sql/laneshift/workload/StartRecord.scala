package org.apache.spark.sql.laneshift.workload

import java.io.{InputStream, OutputStream}
import java.nio.charset.StandardCharsets

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.HDFSMetadataLog

/** What a query's first start fixes for the life of its checkpoint, in the source's own folder there: when row
  * 0 is due, and the options that decide what the rows are. So a restart makes the same rows, or says why it
  * cannot.
  */
private[workload] final case class StartRecord(startMicros: Long, identity: Map[String, String])

private[workload] object StartRecord {

  private val Version = 1
  private val mapper = new ObjectMapper()

  /** When row 0 is due: as recorded, after a check, else as `set` or `now`, which it records. */
  def startMicros(
      set: Option[Long],
      identity: Seq[(String, String)],
      log: HDFSMetadataLog[StartRecord],
      now: Long
  ): Long = {
    val record = log.get(0L).getOrElse {
      val first = StartRecord(set.getOrElse(now), identity.toMap)
      log.add(0L, first)
      first
    }
    check(set, identity, record)
    record.startMicros
  }

  def log(session: SparkSession, location: String): HDFSMetadataLog[StartRecord] =
    new HDFSMetadataLog[StartRecord](session, location) {
      override def serialize(record: StartRecord, out: OutputStream): Unit = out.write(toJson(record))
      override def deserialize(in: InputStream): StartRecord = fromJson(in.readAllBytes(), location)
    }

  private def check(set: Option[Long], identity: Seq[(String, String)], record: StartRecord): Unit = {
    val start = set.filter(_ != record.startMicros).map { s =>
      s"'startTime' was ${time(record.startMicros)} and is ${time(s)}"
    }
    val others = identity.collect {
      case (name, is) if !record.identity.get(name).contains(is) =>
        s"'$name' was '${record.identity.getOrElse(name, "not set")}' and is '$is'"
    }
    val changed = others ++ start
    if (changed.nonEmpty)
      throw new WorkloadOptionException(
        s"The checkpoint belongs to another workload: option ${changed.mkString(", ")}. These options " +
          "decide the rows and may not change; set them back, or start with a new checkpoint."
      )
  }

  private def time(micros: Long) = java.time.Instant.ofEpochSecond(micros / 1000000, micros % 1000000 * 1000)

  private def toJson(record: StartRecord): Array[Byte] = {
    val node = mapper.createObjectNode()
    node.put("version", Version)
    node.put("startMicros", record.startMicros)
    val options = node.putObject("options")
    record.identity.toSeq.sorted.foreach { case (name, value) => options.put(name, value) }
    mapper.writeValueAsBytes(node)
  }

  private def fromJson(bytes: Array[Byte], location: String): StartRecord = {
    val node = mapper.readTree(bytes)
    if (node == null || node.path("version").asInt(0) != Version)
      throw new WorkloadOptionException(
        s"$location holds no record of version $Version of this source, but: " +
          s"${new String(bytes, StandardCharsets.UTF_8)}. Start with a new checkpoint."
      )
    val options = node.path("options")
    StartRecord(
      node.get("startMicros").longValue(),
      options.fieldNames().asScala.map(name => name -> options.get(name).asText()).toMap
    )
  }
}
