package org.apache.spark.sql.laneshift.api

import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.laneshift.driver.{
  BatchView,
  Decision,
  DemandView,
  ExecutorLoad,
  Heard,
  LaneChange,
  PartitionSite,
  QueryView,
  SourceCount
}
import org.apache.spark.sql.laneshift.lane.RemoteLaneView
import org.apache.spark.sql.laneshift.proto.{ControlMessages => pb}
import org.apache.spark.sql.laneshift.rescale.{LiveRescale, OfflineRescaled}
import org.apache.spark.sql.laneshift.runtime.{Applied, HandoffRecord}

/** What the driver knows, as messages of the control service. */
private[api] object Messages {

  /** The name of an enum's value: `mid-batch` is MID_BATCH. */
  private def named(name: String): String = name.toUpperCase(Locale.ROOT).replace('-', '_')

  def applied(when: Applied): pb.Applied = pb.Applied.valueOf(named(when.name))

  def query(
      q: QueryView,
      read: Option[SourceCount],
      tenant: Option[String],
      rescale: Option[LiveRescale],
      partition: PartitionSite => pb.Partition
  ): pb.Query = {
    val out = pb.Query.newBuilder()
      .setId(q.run.id)
      .setRunId(q.run.runId)
      .setMode(if (q.realTime) pb.Query.Mode.REAL_TIME else pb.Query.Mode.MICRO_BATCH)
      .setActive(q.run.active)
    q.run.name.foreach(out.setName)
    tenant.foreach(out.setTenant)
    q.trigger.foreach { t =>
      val trigger = pb.Trigger.newBuilder().setKind(pb.Trigger.Kind.valueOf(named(t.kind)))
      t.intervalMs.foreach(ms => trigger.setIntervalS(ms / 1e3))
      out.setTrigger(trigger)
    }
    q.run.batch.foreach(b => out.setBatch(batch(b)))
    rescale.foreach(r => out.setRescale(Messages.rescale(r)))
    read.foreach { n =>
      val count = pb.SourceCount.newBuilder().setRows(n.rows)
      n.batchId.foreach(count.setBatchId)
      out.setGiven(count)
    }
    q.operators.foreach { partitions =>
      val spec = partitions.head.view.spec
      val operator = pb.Operator.newBuilder()
        .setOperatorId(spec.key.operatorId)
        .setName(spec.name)
        .setHandoff(pb.Operator.HandoffMode.valueOf(named(spec.handoff.name)))
        .setTasks(spec.tasks)
        .setPartitionCount(spec.partitions)
        .setInputs(spec.inputs)
        .setAbove(pb.Operator.RowWork.valueOf(named(spec.above.name)))
        .addAllPartitions(partitions.map(partition).asJava)
      spec.upstream.foreach(operator.addUpstream)
      out.addOperators(operator)
    }
    out.build()
  }

  private def batch(b: BatchView): pb.Batch = {
    val out = pb.Batch.newBuilder().setBatchId(b.batchId).setDurationS(b.durationMs / 1e3)
    b.sources.foreach { s =>
      val source = pb.Source.newBuilder().setName(s.name).setRows(s.rows).setRowsPerS(s.rowsPerSecond)
      s.backlogRows.foreach(source.setBacklogRows)
      out.addSources(source)
    }
    b.state.foreach { s =>
      out.addState(
        pb.Stores.newBuilder()
          .setName(s.name)
          .setPartitions(s.partitions.toInt)
          .setStores(s.stores.toInt)
          .setCommitS(s.commitMs / 1e3)
          .setWrittenBytes(s.writtenBytes)
      )
    }
    out.build()
  }

  def executor(e: ExecutorLoad): pb.Executor = pb.Executor.newBuilder()
    .setExecutor(e.id)
    .setHost(e.host)
    .setCores(e.cores)
    .setActiveTasks(e.activeTasks)
    .setLeaving(e.leaving)
    .setAsked(e.asked)
    .setHomeLanes(e.view.homeLanes)
    .setHostLanes(e.view.hostLanes)
    .setIdleCores(e.idleCores)
    .setRemoteKeptBytes(e.view.keptBytes)
    .setRemoteRows(e.view.rowsSent)
    .setRemoteFrames(e.view.frames)
    .setRemoteStateReads(e.view.stateReads)
    .setRemoteBytesSent(e.view.bytesSent)
    .setRemoteBytesReceived(e.view.bytesReceived)
    .setRemoteLostHosts(e.view.lostHosts)
    .build()

  def demand(d: DemandView): pb.DemandExecutorsReply = {
    val out = pb.DemandExecutorsReply.newBuilder()
      .setMost(d.most)
      .setRestS(d.restMs / 1e3)
      .setThere(d.there)
      .setRequested(d.requested)
      .setAtStart(d.atStart)
      .addAllAsked(d.asked.asJava)
    d.why.foreach(out.setWhy)
    out.build()
  }

  private def remoteLane(r: RemoteLaneView): pb.RemoteLane = pb.RemoteLane.newBuilder()
    .setLane(r.lane)
    .setExecutor(r.executorId)
    .setOpen(r.open)
    .setKeptBytes(r.keptBytes)
    .setRowsSent(r.rowsSent)
    .setFrames(r.frames)
    .setStateReads(r.stateReads)
    .setBytesSent(r.bytesSent)
    .setBytesReceived(r.bytesReceived)
    .build()

  def partition(p: PartitionSite): pb.Partition = {
    val v = p.view
    val options = v.spec.options
    def perLane[T](values: Array[T], none: T): Seq[T] = values.toSeq.take(v.lanes).padTo(v.lanes, none)
    val out = pb.Partition.newBuilder()
      .setPartition(v.index)
      .setExecutor(p.executor.id)
      .setHost(p.executor.host)
      .setBatchId(v.spec.batchId)
      .setRunning(v.running)
      .setLanes(v.lanes)
      .setMaxLanes(options.maxLanes)
      .setAuto(v.auto)
      .setLoadMetric(if (options.loadByCpu) pb.Partition.LoadMetric.CPU else pb.Partition.LoadMetric.ROWS)
      .setRowsInPerS(v.rowsInPerSecond)
      .setRowsOutPerS(v.rowsOutPerSecond)
      .setBytesInPerS(v.bytesInPerSecond)
      .setBytesOutPerS(v.bytesOutPerSecond)
      .setBytesIn(v.bytesIn)
      .setBytesOut(v.bytesOut)
      .setRowsIn(v.rowsIn)
      .setRowsOut(v.rowsOut)
      .setRowsTaken(v.rowsTaken)
      .setBusyS(v.busyNs / 1e9)
      .setRowsTakenElsewhere(v.rowsTakenElsewhere)
      .setBusyElsewhereS(v.busyElsewhereNs / 1e9)
      .setBlockedS(v.blockedNs / 1e9)
      .setQueueBytesLimit(options.queueBytes)
      .setMaxElsewhere(v.spec.maxElsewhere)
      .setHandoffs(v.handoffs)
      .setHandoffsPerS(v.handoffsPerSecond)
      .setInFlight(v.inFlight.toLong)
      .setStateRows(v.state.rows)
      .setStateMemoryBytes(v.state.memoryBytes)
      .setStateFileBytes(v.state.fileBytes)
      .setPauseUs(
        pb.Pauses.newBuilder()
          .setP50(v.pauseUs.p50).setP99(v.pauseUs.p99).setMax(v.pauseUs.max).setCount(v.pauseUs.count)
      )
      .setLatencyMs(
        pb.Ages.newBuilder()
          .setMean(v.latencyMs.mean).setP50(v.latencyMs.p50).setP99(v.latencyMs.p99).setMax(v.latencyMs.max)
          .setCount(v.latencyMs.count)
      )
    v.routing.foreach(out.addLaneOfShard)
    // CPU time is counted in nanoseconds.
    v.loads.foreach(load => out.addShardLoad(if (options.loadByCpu) load / 1e9 else load))
    perLane(v.laneRows, 0L).foreach(out.addLaneRows)
    perLane(v.laneBusy, 0.0).foreach(out.addLaneBusy)
    perLane(v.queueRows, 0L).foreach(out.addQueueRows)
    perLane(v.queueBytes, 0L).foreach(out.addQueueBytes)
    v.wantedElsewhere.foreach { case (id, lanes) => out.putWantedElsewhere(id, lanes) }
    v.elsewhere.foreach(lane => out.addElsewhere(remoteLane(lane)))
    v.elsewhereNote.foreach(out.setElsewhereNote)
    v.lastBatch.foreach { b =>
      out.setLastBatch(
        pb.LastBatch.newBuilder()
          .setBatchId(b.batchId).setLanes(b.lanes).setRows(b.rows)
          .setBusyS(b.busyNs / 1e9).setTookS(b.tookNs / 1e9)
      )
    }
    v.hotKeys.foreach { k =>
      val key = pb.HotKey.newBuilder().setKey(k.key).setShare(k.share)
      k.value.foreach(key.setValue)
      out.addHotKeys(key)
    }
    out.build()
  }

  /** When the span began is by the driver's clock. */
  def press(heard: Heard): pb.Press = {
    val press = heard.press
    pb.Press.newBuilder()
      .setRunId(press.key.runId)
      .setOperator(press.key.operatorId)
      .setPartition(press.index)
      .setSinceMs(heard.atMs - press.spanNs / 1000000L)
      .setRowsIn(press.rowsIn)
      .setRowsTaken(press.rowsTaken)
      .setRowsOut(press.rowsOut)
      .setBusyS(press.busyNs / 1e9)
      .setBlockedS(press.blockedNs / 1e9)
      .build()
  }

  def handoff(entry: (Long, HandoffRecord)): pb.Handoff = {
    val (seq, h) = entry
    val out = pb.Handoff.newBuilder()
      .setSeq(seq)
      .setTimeMs(h.timeMs)
      .setQueryId(h.key.queryId)
      .setOperatorId(h.key.operatorId)
      .setPartition(h.partition)
      .setShard(h.shard)
      .setSource(h.from)
      .setTarget(h.to)
      .setReason(h.reason)
      .setBatchId(h.batchId)
      .setDrainUs(h.drainNs / 1e3)
      .setFlushUs(h.flushNs / 1e3)
      .setSwitchUs(h.switchNs / 1e3)
      .setPauseUs(h.pauseNs / 1e3)
      .setMovedRows(h.movedRows)
    Option(h.fromExecutor).filter(_.nonEmpty).foreach(out.setSourceExecutor)
    Option(h.toExecutor).filter(_.nonEmpty).foreach(out.setTargetExecutor)
    out.build()
  }

  def rescale(r: LiveRescale): pb.RescaleReply = {
    val (written, stores) = r.progress
    val out = pb.RescaleReply.newBuilder()
      .setBefore(r.from)
      .setAfter(r.to)
      .setState(pb.RescaleReply.State.valueOf(named(r.state.name)))
      .setEnded(r.state.ended)
      .setStoresWritten(written)
      .setStores(stores)
      .setLagBatches(r.lag)
      .setPauseMs(r.pauseMs)
    r.failure.foreach(out.setFailure)
    r.batch.foreach(out.setBatchId)
    out.build()
  }

  def rescale(r: OfflineRescaled): pb.OfflineRescaleReply = {
    val out = pb.OfflineRescaleReply.newBuilder()
      .setBefore(r.from)
      .setAfter(r.to)
      .setBatchId(r.batch)
      .setBuildS(r.buildMs / 1e3)
      .setCheckS(r.checkMs / 1e3)
      .setTakeOverS(r.takeOverMs / 1e3)
    r.rows.foreach(out.setRows)
    out.build()
  }

  def decision(d: Decision): pb.Decision = {
    val out = pb.Decision.newBuilder()
      .setTimeMs(d.timeMs)
      .setExecutor(d.executor)
      .setPolicy(d.policy)
      .addAllNotes(d.notes.asJava)
      .setApplied(d.applied)
    d.error.foreach(out.setError)
    d.changes.foreach { c =>
      out.addChanges(
        pb.LaneChange.newBuilder()
          .setPartition(c.partition).setBefore(c.before).setAfter(c.after).setReason(c.reason)
          .setElsewhere(c.elsewhere)
      )
    }
    out.build()
  }

  def decided(d: pb.Decision): Decision = Decision(
    d.getTimeMs,
    d.getExecutor,
    d.getPolicy,
    d.getChangesList.asScala.toSeq.map(c =>
      LaneChange(c.getPartition, c.getBefore, c.getAfter, c.getReason, c.getElsewhere)
    ),
    d.getNotesList.asScala.toSeq,
    d.getApplied,
    Option.when(d.hasError)(d.getError)
  )
}
