package org.apache.spark.sql.laneshift.workload

import java.util.{ArrayList => JList}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.sql.connector.read.streaming.{Offset, PartitionOffset}

/** How far the source was read: per partition the sequence number of its next row. As JSON
  * `{"version":1,"seed":7,"next":[12,12,11]}`; the seed is there to recognise an offset of another workload.
  */
private[workload] final case class WorkloadOffset(seed: Long, next: Seq[Long]) extends Offset {

  override def json(): String = {
    val node = WorkloadOffset.mapper.createObjectNode()
    node.put("version", WorkloadOffset.Version)
    node.put("seed", seed)
    val list = node.putArray("next")
    next.foreach(list.add(_))
    WorkloadOffset.mapper.writeValueAsString(node)
  }

  def rows: Long = next.sum
}

/** The same for one partition: what a Real-time Mode task reports when its batch ends. */
private[workload] final case class WorkloadPartitionOffset(partition: Int, next: Long) extends PartitionOffset

private[workload] object WorkloadOffset {
  private val Version = 1
  private val mapper = new ObjectMapper()

  def initial(spec: DealtRows): WorkloadOffset = WorkloadOffset(spec.seed, Seq.fill(spec.partitions)(0L))

  /** Reads an offset of the checkpoint and checks that it belongs to `spec`. */
  def parse(json: String, spec: DealtRows): WorkloadOffset = {
    def refuse(what: String): Nothing = throw new WorkloadOptionException(
      s"The checkpoint's offset $json of ${spec.source} $what. " +
        "Give the source the options it had when the checkpoint was made, or start with a new checkpoint."
    )
    val offset =
      try {
        val node: JsonNode = mapper.readTree(json)
        if (node.path("version").asInt(0) != Version) refuse(s"is not of version $Version")
        val next = new JList[Long]()
        node.get("next").forEach(n => next.add(n.longValue()))
        WorkloadOffset(node.get("seed").longValue(), next.asScala.toSeq)
      } catch {
        case e: WorkloadOptionException => throw e
        case NonFatal(e) => refuse(s"cannot be read ($e)")
      }
    if (offset.seed != spec.seed) refuse(s"has seed ${offset.seed}, but the option 'seed' is ${spec.seed}")
    if (offset.next.length != spec.partitions)
      refuse(s"has ${offset.next.length} partitions, but the option 'numPartitions' is ${spec.partitions}")
    offset
  }

  /** One offset from those that the tasks of a Real-time Mode batch report. */
  def merge(parts: Seq[PartitionOffset], spec: DealtRows): WorkloadOffset = {
    val next = parts.collect { case WorkloadPartitionOffset(p, n) => p -> n }.toMap
    val missing = (0 until spec.partitions).filterNot(next.contains)
    if (missing.nonEmpty || parts.length != spec.partitions)
      throw new IllegalStateException(
        s"Expected one offset from each of ${spec.partitions} partitions of ${spec.source}, got " +
          s"${parts.mkString(", ")}; missing: ${missing.mkString(", ")}."
      )
    WorkloadOffset(spec.seed, (0 until spec.partitions).map(next))
  }
}
