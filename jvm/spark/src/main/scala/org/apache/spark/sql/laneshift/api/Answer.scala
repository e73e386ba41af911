package org.apache.spark.sql.laneshift.api

import java.io.StringWriter

import com.fasterxml.jackson.core.{JsonFactoryBuilder, JsonGenerator, StreamWriteFeature}

import org.apache.spark.sql.laneshift.driver.{
  BatchView,
  Decision,
  DemandView,
  ExecutorLoad,
  Heard,
  PartitionSite,
  QueryView,
  SourceCount
}
import org.apache.spark.sql.laneshift.lane.RemoteLaneView
import org.apache.spark.sql.laneshift.rescale.LiveRescale
import org.apache.spark.sql.laneshift.runtime.HandoffRecord

/** Wraps what a call gives, or why it failed, in the JSON that Python reads. */
private[api] object Answer {
  // JDK 17 writes a double many times slower.
  private val json = new JsonFactoryBuilder().enable(StreamWriteFeature.USE_FAST_DOUBLE_WRITER).build()

  def apply(value: => Any): String = {
    val envelope =
      try Map[String, Any]("ok" -> value)
      catch {
        case e: ApiError =>
          Map[String, Any](
            "error" -> Map[String, Any](
              "condition" -> e.condition,
              "sqlstate" -> e.sqlState,
              "message" -> e.getMessage,
              "parameters" -> e.parameters
            )
          )
      }
    val text = new StringWriter
    val out = json.createGenerator(text)
    write(out, envelope)
    out.close()
    text.toString
  }

  private def write(out: JsonGenerator, value: Any): Unit = value match {
    case null | None => out.writeNull()
    case Some(v) => write(out, v)
    case m: Map[_, _] =>
      out.writeStartObject()
      m.foreach { case (k, v) =>
        out.writeFieldName(k.toString)
        write(out, v)
      }
      out.writeEndObject()
    case s: Seq[_] =>
      out.writeStartArray()
      s.foreach(write(out, _))
      out.writeEndArray()
    case a: Array[Int] => out.writeArray(a, 0, a.length)
    case a: Array[Long] => out.writeArray(a, 0, a.length)
    case a: Array[Double] => out.writeArray(a, 0, a.length)
    case s: String => out.writeString(s)
    case b: Boolean => out.writeBoolean(b)
    case n: Int => out.writeNumber(n)
    case n: Long => out.writeNumber(n)
    case n: Double => out.writeNumber(n)
    case other => throw new IllegalArgumentException(s"${other.getClass.getName} has no form in JSON")
  }
}

/** Partitions and handoffs in the words of the Python side. */
private[api] object SnapshotJson {

  def query(
      q: QueryView,
      read: Option[SourceCount],
      tenant: Option[String],
      rescale: Option[LiveRescale],
      partition: PartitionSite => Any
  ): Map[String, Any] =
    Map[String, Any](
      "id" -> q.run.id,
      "run_id" -> q.run.runId,
      "name" -> q.run.name,
      "mode" -> (if (q.realTime) "real-time" else "micro-batch"),
      "active" -> q.run.active,
      "tenant" -> tenant,
      "trigger" -> q.trigger.map(t =>
        Map[String, Any]("kind" -> t.kind, "interval_s" -> t.intervalMs.map(_ / 1e3))
      ),
      "batch" -> q.run.batch.map(batch),
      "rescale" -> rescale.map(RescaleJson(_)),
      "given" -> read.map(n => Map[String, Any]("rows" -> n.rows, "batch_id" -> n.batchId)),
      "operators" -> q.operators.map { partitions =>
        val spec = partitions.head.view.spec
        Map[String, Any](
          "operator_id" -> spec.key.operatorId,
          "name" -> spec.name,
          "handoff" -> spec.handoff.name,
          "upstream" -> spec.upstream,
          "tasks" -> spec.tasks,
          "partition_count" -> spec.partitions,
          "inputs" -> spec.inputs,
          "above" -> spec.above.name,
          "partitions" -> partitions.map(partition)
        )
      }
    )

  private def batch(b: BatchView): Map[String, Any] = Map(
    "batch_id" -> b.batchId,
    "duration_s" -> b.durationMs / 1e3,
    "sources" -> b.sources.map { s =>
      Map[String, Any](
        "name" -> s.name,
        "rows" -> s.rows,
        "rows_per_s" -> s.rowsPerSecond,
        "backlog_rows" -> s.backlogRows
      )
    },
    "state" -> b.state.map { s =>
      Map[String, Any](
        "name" -> s.name,
        "partitions" -> s.partitions,
        "stores" -> s.stores,
        "commit_s" -> s.commitMs / 1e3,
        "written_bytes" -> s.writtenBytes
      )
    }
  )

  def executor(e: ExecutorLoad): Map[String, Any] = Map(
    "executor" -> e.id,
    "host" -> e.host,
    "cores" -> e.cores,
    "active_tasks" -> e.activeTasks,
    "leaving" -> e.leaving,
    "asked" -> e.asked,
    "home_lanes" -> e.view.homeLanes,
    "host_lanes" -> e.view.hostLanes,
    "idle_cores" -> e.idleCores,
    "remote_kept_bytes" -> e.view.keptBytes,
    "remote_rows" -> e.view.rowsSent,
    "remote_frames" -> e.view.frames,
    "remote_state_reads" -> e.view.stateReads,
    "remote_bytes_sent" -> e.view.bytesSent,
    "remote_bytes_received" -> e.view.bytesReceived,
    "remote_lost_hosts" -> e.view.lostHosts
  )

  def demand(d: DemandView): Map[String, Any] = Map(
    "most" -> d.most,
    "rest_s" -> d.restMs / 1e3,
    "why" -> d.why,
    "there" -> d.there,
    "requested" -> d.requested,
    "at_start" -> d.atStart,
    "asked" -> d.asked
  )

  private def remoteLane(r: RemoteLaneView): Map[String, Any] = Map(
    "lane" -> r.lane,
    "executor" -> r.executorId,
    "open" -> r.open,
    "kept_bytes" -> r.keptBytes,
    "rows_sent" -> r.rowsSent,
    "frames" -> r.frames,
    "state_reads" -> r.stateReads,
    "bytes_sent" -> r.bytesSent,
    "bytes_received" -> r.bytesReceived
  )

  def partition(p: PartitionSite): Map[String, Any] = {
    val v = p.view
    val options = v.spec.options
    def perLane[T](values: Array[T], none: T): Seq[T] = values.toSeq.take(v.lanes).padTo(v.lanes, none)
    Map[String, Any](
      "partition" -> v.index,
      "executor" -> p.executor.id,
      "host" -> p.executor.host,
      "batch_id" -> v.spec.batchId,
      "running" -> v.running,
      "shards" -> options.shards,
      "lanes" -> v.lanes,
      "max_lanes" -> options.maxLanes,
      "auto" -> v.auto,
      "last_batch" -> v.lastBatch.map { b =>
        Map[String, Any](
          "batch_id" -> b.batchId,
          "lanes" -> b.lanes,
          "rows" -> b.rows,
          "busy_s" -> b.busyNs / 1e9,
          "took_s" -> b.tookNs / 1e9
        )
      },
      "lane_of_shard" -> v.routing,
      // CPU time is counted in nanoseconds.
      "shard_load" -> (if (options.loadByCpu) v.loads.map(_ / 1e9) else v.loads),
      "load_metric" -> (if (options.loadByCpu) "cpu" else "rows"),
      "rows_in_per_s" -> v.rowsInPerSecond,
      "rows_out_per_s" -> v.rowsOutPerSecond,
      "bytes_in_per_s" -> v.bytesInPerSecond,
      "bytes_out_per_s" -> v.bytesOutPerSecond,
      "bytes_in" -> v.bytesIn,
      "bytes_out" -> v.bytesOut,
      "rows_in" -> v.rowsIn,
      "rows_out" -> v.rowsOut,
      "lane_rows" -> perLane(v.laneRows, 0L),
      "rows_taken" -> v.rowsTaken,
      "busy_s" -> v.busyNs / 1e9,
      "rows_taken_elsewhere" -> v.rowsTakenElsewhere,
      "busy_elsewhere_s" -> v.busyElsewhereNs / 1e9,
      "blocked_s" -> v.blockedNs / 1e9,
      "lane_busy" -> perLane(v.laneBusy, 0.0),
      "queue_rows" -> perLane(v.queueRows, 0L),
      "queue_bytes" -> perLane(v.queueBytes, 0L),
      "queue_bytes_limit" -> options.queueBytes,
      "max_elsewhere" -> v.spec.maxElsewhere,
      "wanted_elsewhere" -> v.wantedElsewhere.map { case (id, lanes) =>
        Map[String, Any]("executor" -> id, "lanes" -> lanes)
      },
      "elsewhere" -> v.elsewhere.map(remoteLane),
      "elsewhere_note" -> v.elsewhereNote,
      "hot_keys" -> v.hotKeys.map(k =>
        Map[String, Any]("key" -> k.key, "value" -> k.value, "share" -> k.share)
      ),
      "handoffs" -> v.handoffs,
      "handoffs_per_s" -> v.handoffsPerSecond,
      "in_flight" -> v.inFlight,
      "pause_us" -> Map[String, Any](
        "p50" -> v.pauseUs.p50,
        "p99" -> v.pauseUs.p99,
        "max" -> v.pauseUs.max,
        "count" -> v.pauseUs.count
      ),
      "state_rows" -> v.state.rows,
      "state_memory_bytes" -> v.state.memoryBytes,
      "state_file_bytes" -> v.state.fileBytes,
      "latency_ms" -> Map[String, Any](
        "mean" -> v.latencyMs.mean,
        "p50" -> v.latencyMs.p50,
        "p99" -> v.latencyMs.p99,
        "max" -> v.latencyMs.max,
        "count" -> v.latencyMs.count
      )
    )
  }

  /** When the span began is by the driver's clock. */
  def press(heard: Heard): Map[String, Any] = {
    val press = heard.press
    Map(
      "run_id" -> press.key.runId,
      "operator" -> press.key.operatorId,
      "partition" -> press.index,
      "since_ms" -> (heard.atMs - press.spanNs / 1000000L),
      "rows_in" -> press.rowsIn,
      "rows_taken" -> press.rowsTaken,
      "rows_out" -> press.rowsOut,
      "busy_s" -> press.busyNs / 1e9,
      "blocked_s" -> press.blockedNs / 1e9
    )
  }

  def decision(d: Decision): Map[String, Any] = Map(
    "time_ms" -> d.timeMs,
    "executor" -> d.executor,
    "policy" -> d.policy,
    "changes" -> d.changes.map { c =>
      Map[String, Any](
        "partition" -> c.partition,
        "before" -> c.before,
        "after" -> c.after,
        "elsewhere" -> c.elsewhere,
        "reason" -> c.reason
      )
    },
    "notes" -> d.notes,
    "applied" -> d.applied,
    "error" -> d.error
  )

  def handoff(entry: (Long, HandoffRecord)): Map[String, Any] = {
    val (seq, h) = entry
    Map[String, Any](
      "seq" -> seq,
      "time_ms" -> h.timeMs,
      "query_id" -> h.key.queryId,
      "operator_id" -> h.key.operatorId,
      "partition" -> h.partition,
      "shard" -> h.shard,
      "from" -> h.from,
      "from_executor" -> h.fromExecutor,
      "to" -> h.to,
      "to_executor" -> h.toExecutor,
      "reason" -> h.reason,
      "batch_id" -> h.batchId,
      "drain_us" -> h.drainNs / 1e3,
      "flush_us" -> h.flushNs / 1e3,
      "switch_us" -> h.switchNs / 1e3,
      "pause_us" -> h.pauseNs / 1e3,
      "moved_rows" -> h.movedRows
    )
  }
}
