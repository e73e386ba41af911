package org.apache.spark.sql.laneshift.api

import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.laneshift.conf.BuildInfo
import org.apache.spark.sql.laneshift.driver.{
  DriverState,
  ExecutorRef,
  PartitionSite,
  QueryView,
  SourceCount,
  SourceThrottle,
  WrongDemand
}
import org.apache.spark.sql.laneshift.rescale.{LiveRescale, NotRescalable, OfflineRescale}
import org.apache.spark.sql.laneshift.runtime.{Applied, ExecutorRequest}
import org.apache.spark.sql.laneshift.spec.{HandoffMode, RowWork, TaskWish}
import org.apache.spark.util.ThreadUtils

/** The one class that Python calls. Each method is one call and answers with JSON: `{"ok": value}` or
  * `{"error": {condition, sqlstate, message, parameters}}`. A query is named by its id, run id or name.
  */
object LaneshiftGateway {

  def version(): String = BuildInfo.version

  def snapshot(): String = Answer(now(Inventory.driver))

  /** The same as a message of the control service, unless it says what the one of the number `known` said; 0 for none. */
  def packedSnapshot(known: Long): String = Answer {
    val driver = Inventory.driver
    val snapshot = now(driver, views => PackedSnapshot.partitions(views, driver.partitionMessages))
    PackedSnapshot(snapshot, known, driver.snapshotNumbers)
  }

  private def now(
      driver: DriverState,
      partitions: Seq[QueryView] => PartitionSite => Any = _ => SnapshotJson.partition
  ): Map[String, Any] = {
    // Of all executors at a time with what they say of themselves.
    val views = driver.askViews()
    val executors = driver.executors.inventory()
    Map(
      "time_ms" -> System.currentTimeMillis(),
      // Goes on whatever the clock is set to.
      "count_ms" -> System.nanoTime() / 1000000,
      "version" -> BuildInfo.version,
      "executors" -> executors.map(SnapshotJson.executor),
      "silent" -> executors.filter(_.said.isEmpty).map(_.id),
      "queries" -> {
        val found = views()
        queries(driver, found, partitions(found))
      }
    )
  }

  private def queries(
      driver: DriverState,
      found: Seq[QueryView],
      partition: PartitionSite => Any
  ): Seq[Map[String, Any]] = {
    val live = if (found.exists(_.realTime)) driver.executors.sourceRows() else Map.empty[String, Long]
    found.map { q =>
      val read = if (q.realTime) live.get(q.run.runId).map(SourceCount(_, None)) else q.run.read
      SnapshotJson.query(q, read, q.run.tenant, q.run.rescale, partition)
    }
  }

  /** The snapshot and the newest decisions of schedulers, newest first: what the tab gives to programs. */
  def status(decisions: Int): String = Answer {
    val driver = Inventory.driver
    now(driver) + ("decisions" -> driver.decisions.newest(decisions).map(SnapshotJson.decision))
  }

  /** Asks for `lanes` lanes in one partition, or in every one if `partition` is -1.
    *
    * @param elsewhere how many more on which other executors, as a JSON object: lanes by executor id; empty to leave those that are
    *   wanted
    */
  def setLanes(query: String, operatorId: Long, partition: Int, lanes: Int, elsewhere: String): String =
    Answer(askFor(lanes, Elsewhere.read(elsewhere), Inventory.partitions(query, operatorId, partition)))

  /** The same for each [[LanesWish]] of a JSON array, and what [[setLanes]] answers to each, in the same order; `failed` says what
    * was thrown instead. All executors are asked once what they have, however many wishes there are.
    */
  def setManyLanes(wishes: String): String = Answer {
    val views = Inventory.driver.views()
    LanesWish.read(wishes).map { wish =>
      try Answer {
          val found = Inventory.partitions(views, wish.query, wish.operator, wish.partition)
          askFor(wish.lanes, wish.elsewhere, found)
        }
      catch { case NonFatal(problem) => Answer(Map("failed" -> problem.toString)) }
    }
  }

  private def askFor(
      lanes: Int,
      hosts: Option[Map[String, Int]],
      found: Seq[PartitionSite]
  ): Map[String, Any] = {
    val max = found.head.view.spec.options.maxLanes
    if (lanes < 1 || lanes > max) throw ApiError.lanesOutOfRange(lanes, max)
    hosts.foreach(Elsewhere.check(_, found))
    val addresses = hosts.map(Elsewhere.addresses)
    val applied =
      found.map(p => p.setLanes(lanes, addresses).getOrElse(throw ApiError.partitionGone(p.view.index)))
    Map[String, Any](
      "lanes" -> lanes,
      "elsewhere" -> hosts.getOrElse(Map.empty),
      "applied" -> applied.maxBy(_ == Applied.NextBatch).name
    )
  }

  /** Asks for so many tasks for an operator's state partitions from the next batch on: a number, `auto` or `stock`. */
  def setTasks(query: String, operatorId: Long, tasks: String): String = Answer {
    val spec = Inventory.partitions(query, operatorId, -1).head.view.spec
    val wish = TaskWish.of(tasks).getOrElse(throw ApiError.tasksOutOfRange(tasks, spec.partitions))
    wish match {
      case TaskWish.Exactly(n) if n > spec.partitions =>
        throw ApiError.tasksOutOfRange(tasks, spec.partitions)
      case _ if spec.handoff == HandoffMode.Dealt => throw ApiError.noStatePartitions(operatorId)
      case _ => Inventory.runOf(Inventory.driver, query).setTasks(operatorId, wish)
    }
    Map[String, Any]("tasks" -> TaskWish.text(wish), "applied" -> Applied.NextBatch.name)
  }

  def moveShard(query: String, operatorId: Long, partition: Int, shard: Int, lane: Int): String = Answer {
    if (partition < 0) throw ApiError.noSuchPartition(partition, 0)
    val found = Inventory.partitions(query, operatorId, partition).head
    val shards = found.view.spec.options.shards
    if (shard < 0 || shard >= shards) throw ApiError.noSuchShard(shard, shards)
    val lanes = math.max(found.view.lanes, found.view.wantedLanes)
    if (lane < 0 || lane >= lanes) throw ApiError.noSuchLane(lane, lanes)
    found.moveShard(shard, lane).getOrElse(throw ApiError.partitionGone(partition)) match {
      case Left(why) => throw ApiError.notMovable(shard, why)
      case Right((from, applied)) =>
        Map[String, Any]("shard" -> shard, "from" -> from, "to" -> lane, "applied" -> applied.name)
    }
  }

  /** For so many seconds a planner of key distribution decides for an operator: its partitions' own balancers rest, and the row-wise
    * work above its state is apart from the next batch on or not, as `apart` says: `true`, `false`, or empty, as it would be
    * without. Where `hotKeys.spread` is not `auto` it says so in any case.
    * It replaces what was said before; 0 seconds end it.
    */
  def claimKeys(query: String, operatorId: Long, apart: String, seconds: Double): String = Answer {
    if (!(seconds >= 0 && seconds < Double.PositiveInfinity)) throw ApiError.outOfRange("seconds", seconds)
    if (!Set("", "true", "false").contains(apart)) throw ApiError.apartUnreadable(apart)
    val found = Inventory.partitions(query, operatorId, -1)
    val spec = found.head.view.spec
    if (spec.handoff == HandoffMode.Dealt) throw ApiError.noKeys(operatorId)
    if (apart == "true" && spec.above == RowWork.Fixed) throw ApiError.nothingAbove(operatorId)
    Inventory.runOf(Inventory.driver, query).claimKeys(operatorId, apart.toBooleanOption, seconds)
    // All at a time: each answers by itself.
    found.map(p => p.executor.asking(ExecutorRequest.RestBalancer(spec.key, p.view.index, seconds)))
      .foreach(ThreadUtils.awaitReady(_, ExecutorRef.Patience))
    Map[String, Any]("above" -> spec.above.name, "applied" -> Applied.NextBatch.name)
  }

  /** The newest `limit` handoffs of a query, oldest first; of every query if `query` is empty. */
  def handoffs(query: String, limit: Int): String = Answer {
    val driver = Inventory.driver
    val runs = if (query.isEmpty) None else Some(Inventory.runsOf(driver, query).map(_.runId).toSet)
    driver.executors.handoffs(limit, runs).map(SnapshotJson.handoff)
  }

  /** Holds back the source of a query for `seconds`: `rate` rows per second at most. It replaces a limit in force; 0 seconds end
    * that. In micro-batch the next batch is the first.
    */
  def limitSource(query: String, rate: Double, seconds: Double): String = Answer {
    val driver = Inventory.driver
    Seq("rows_per_second" -> rate, "seconds" -> seconds).foreach { case (name, value) =>
      if (!(value >= 0 && value < Double.PositiveInfinity)) throw ApiError.outOfRange(name, value)
    }
    val run = Inventory.runOf(driver, query)
    SourceThrottle.limit(run, driver.executors, rate, seconds) match {
      case Left(why) => throw ApiError.sourceNotLimited(query, why)
      case Right(applied) => Map[String, Any]("applied" -> applied.name)
    }
  }

  /** Asks for another number of state partitions of a query that runs. */
  def rescale(query: String, partitions: Int): String = Answer {
    val driver = Inventory.driver
    val run = Inventory.runOf(driver, query)
    val running = run.execution.getOrElse(throw ApiError.queryStopped(query))
    val slots = driver.executors.inventory().map(_.cores).sum
    try RescaleJson(driver.runs.rescale(run, running, partitions, slots))
    catch { case why: NotRescalable => throw ApiError.notRescalable(query, why) }
  }

  /** The newest rescale of a query that runs. */
  def rescaling(query: String): String = Answer(RescaleJson(newestRescale(query)))

  /** Gives up the rescale that is under way. */
  def cancelRescale(query: String): String = Answer {
    val newest = newestRescale(query)
    newest.cancel()
    RescaleJson(newest)
  }

  private def newestRescale(query: String): LiveRescale =
    Inventory.runOf(Inventory.driver, query).rescale.getOrElse(throw ApiError.noRescale(query))

  /** Gives the checkpoint of a query that does not run another number of state partitions. */
  def rescaleOffline(spark: SparkSession, checkpoint: String, partitions: Int, check: Boolean): String =
    Answer {
      try RescaleJson(OfflineRescale.run(spark.asInstanceOf[ClassicSession], checkpoint, partitions, check))
      catch { case why: NotRescalable => throw ApiError.notRescalable(checkpoint, why) }
    }

  /** Lets a scheduler drive a run of a query, or all queries if `runId` is empty, for so many seconds: no query has two. */
  def claim(scheduler: String, policy: String, runId: String, seconds: Double): String = Answer {
    Inventory.driver.claims.claim(scheduler, policy, runId, seconds).left.foreach { case (other, left) =>
      throw ApiError.otherScheduler(other, left)
    }
    true
  }

  /** Waits for partitions of a run, of any if `runId` is empty, that become pressed, `seconds` at most; those that were told of up to
    * number `after` are known. A newer call of the same scheduler ends one that waits.
    */
  def awaitPressed(scheduler: String, runId: String, after: Long, seconds: Double): String = Answer {
    val (seq, heard) = Inventory.driver.presses.await(scheduler, runId, after, seconds)
    Map[String, Any]("seq" -> seq, "presses" -> heard.map(SnapshotJson.press))
  }

  def release(scheduler: String): String = Answer {
    DriverState.get.foreach(_.claims.release(scheduler))
    true
  }

  /** Executors on demand of a scheduler: how many there are to be in all, 0 for as many as before, and, as a JSON array, those of which
    * it needs none any more. `most` is the most that there may be; 0 for what the application's configuration says.
    */
  def demandExecutors(scheduler: String, most: Int, total: Int, giveBack: String): String = Answer {
    val driver = Inventory.driver
    if (most < 0 || total < 0) throw ApiError.outOfRange("executors", math.min(most, total).toDouble)
    try {
      val view = driver.demand.turn(scheduler, most, total, Elsewhere.names(giveBack))
      if (driver.demand.needsLooks) driver.looks.begin()
      SnapshotJson.demand(view)
    } catch { case wrong: WrongDemand => throw ApiError.wrongDemand(wrong) }
  }

  /** Keeps what a scheduler has decided, for the UI. */
  def decided(decision: String): String = Answer {
    Inventory.driver.decisions.add(decision)
    true
  }
}
