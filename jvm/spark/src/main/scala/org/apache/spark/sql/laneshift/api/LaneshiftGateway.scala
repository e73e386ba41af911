package org.apache.spark.sql.laneshift.api

import org.apache.spark.sql.laneshift.{BuildInfo, LaneshiftConf, LaneshiftPlugin}
import org.apache.spark.sql.laneshift.control._

/** The one class that Python calls. Each method is one call and answers with JSON: `{"ok": value}` or
  * `{"error": {condition, sqlstate, message, parameters}}`. A query is named by its id, run id or name.
  */
object LaneshiftGateway {

  def version(): String = BuildInfo.version

  def configEntries(): String = Answer {
    LaneshiftConf.all.map { e =>
      Map[String, Any](
        "key" -> e.key,
        "default" -> e.defaultValueString,
        "doc" -> e.doc,
        "version" -> e.version
      )
    }
  }

  def snapshot(): String = Answer(now)

  private def now: Map[String, Any] = Map(
    "time_ms" -> System.currentTimeMillis(),
    "version" -> BuildInfo.version,
    "executors" -> Executors.inventory().map(SnapshotJson.executor),
    "queries" -> queries()
  )

  private def queries(): Seq[Map[String, Any]] = {
    val found = Inventory.queries()
    val live = if (found.exists(_.realTime)) Executors.sourceRows() else Map.empty[String, Long]
    found.map { q =>
      val read = if (q.realTime) live.get(q.run.runId).map(SourceCount(_, None)) else q.run.read
      SnapshotJson.query(q, read)
    }
  }

  /** The snapshot and the newest decisions of schedulers, newest first: what the tab gives to programs. */
  def status(decisions: Int): String = Answer {
    now + ("decisions" -> Decisions.newest(decisions).map(SnapshotJson.decision))
  }

  /** Asks for `lanes` lanes in one partition, or in every one if `partition` is -1. */
  def setLanes(query: String, operatorId: Long, partition: Int, lanes: Int): String = Answer {
    val found = Inventory.partitions(query, operatorId, partition)
    val max = found.head.view.spec.options.maxLanes
    if (lanes < 1 || lanes > max) throw ApiError.lanesOutOfRange(lanes, max)
    val applied = found.map(p => p.setLanes(lanes).getOrElse(throw ApiError.partitionGone(p.view.index)))
    Map[String, Any]("lanes" -> lanes, "applied" -> applied.maxBy(_ == Applied.NextBatch).name)
  }

  def moveShard(query: String, operatorId: Long, partition: Int, shard: Int, lane: Int): String = Answer {
    if (partition < 0) throw ApiError.noSuchPartition(partition, 0)
    val found = Inventory.partitions(query, operatorId, partition).head
    val shards = found.view.spec.options.shards
    if (shard < 0 || shard >= shards) throw ApiError.noSuchShard(shard, shards)
    val lanes = found.view.wantedLanes
    if (lane < 0 || lane >= lanes) throw ApiError.noSuchLane(lane, lanes)
    found.moveShard(shard, lane).getOrElse(throw ApiError.partitionGone(partition)) match {
      case Left(why) => throw ApiError.notMovable(shard, why)
      case Right((from, applied)) =>
        Map[String, Any]("shard" -> shard, "from" -> from, "to" -> lane, "applied" -> applied.name)
    }
  }

  /** The newest `limit` handoffs of a query, oldest first; of every query if `query` is empty. */
  def handoffs(query: String, limit: Int): String = Answer {
    checkLoaded()
    val runs = if (query.isEmpty) None else Some(Inventory.runsOf(query).map(_.runId).toSet)
    Executors.handoffs(limit, runs).map(SnapshotJson.handoff)
  }

  /** Holds back the source of a query for `seconds`: `rate` rows per second at most. It replaces a limit in force; 0 seconds end
    * that. In micro-batch the next batch is the first.
    */
  def limitSource(query: String, rate: Double, seconds: Double): String = Answer {
    checkLoaded()
    Seq("rows_per_second" -> rate, "seconds" -> seconds).foreach { case (name, value) =>
      if (!(value >= 0 && value < Double.PositiveInfinity)) throw ApiError.outOfRange(name, value)
    }
    val run = Inventory.runsOf(query).find(_.active).getOrElse(throw ApiError.queryStopped(query))
    SourceThrottle.limit(run.id, rate, seconds) match {
      case Left(why) => throw ApiError.sourceNotLimited(query, why)
      case Right(applied) => Map[String, Any]("applied" -> applied.name)
    }
  }

  /** Lets a scheduler drive a run of a query, or all queries if `runId` is empty, for so many seconds: no query has two. */
  def claim(scheduler: String, policy: String, runId: String, seconds: Double): String = Answer {
    checkLoaded()
    SchedulerClaims.claim(scheduler, policy, runId, seconds).left.foreach { case (other, left) =>
      throw ApiError.otherScheduler(other, left)
    }
    true
  }

  def release(scheduler: String): String = Answer {
    SchedulerClaims.release(scheduler)
    true
  }

  /** Keeps what a scheduler has decided, for the UI. */
  def decided(decision: String): String = Answer {
    checkLoaded()
    Decisions.add(decision)
    true
  }

  private[api] def checkLoaded(): Unit = if (!LaneshiftPlugin.isLoaded) throw ApiError.notLoaded()
}

/** A query with its elastic operators. */
private[laneshift] final case class QueryView(run: QueryRun, operators: Seq[Seq[PartitionSite]]) {
  def realTime: Boolean = operators.headOption.exists(_.head.view.spec.realTime)
}

/** Finds what a call names, or says what there is. */
private[laneshift] object Inventory {

  def queries(): Seq[QueryView] = {
    LaneshiftGateway.checkLoaded()
    val byRun = Executors.partitions().groupBy(_.view.spec.key.runId)
    QueryInventory.all.filter(_.active).map { run =>
      val operators = byRun.getOrElse(run.runId, Nil).groupBy(_.view.spec.key.operatorId).toSeq.sortBy(_._1)
      QueryView(run, operators.map(_._2.sortBy(_.view.index)))
    }
  }

  /** Every known run of the query, ended ones too. */
  def runsOf(query: String): Seq[QueryRun] = {
    val runs = QueryInventory.all.filter(q => q.id == query || q.runId == query || q.name.contains(query))
    if (runs.isEmpty) throw ApiError.noSuchQuery(query, QueryInventory.all.filter(_.active))
    runs
  }

  def partitions(query: String, operatorId: Long, partition: Int): Seq[PartitionSite] = {
    val views = queries()
    val runs = runsOf(query)
    val run = runs.find(_.active).getOrElse(throw ApiError.queryStopped(query))
    val operators = views.find(_.run.runId == run.runId).fold(Seq.empty[Seq[PartitionSite]])(_.operators)
    val operator = operators
      .find(_.head.view.spec.key.operatorId == operatorId)
      .getOrElse(throw ApiError.noSuchOperator(operatorId, operators.map(_.head.view.spec.key.operatorId)))
    val count = operator.head.view.spec.partitions
    if (partition < -1 || partition >= count) throw ApiError.noSuchPartition(partition, count)
    val found = operator.filter(p => partition == -1 || p.view.index == partition)
    if (found.isEmpty) throw ApiError.noSuchPartition(partition, count)
    found
  }
}
