package org.apache.spark.sql.laneshift.api

import java.util.Base64

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.json4s.{JObject, JValue}
import org.sparkproject.spark_core.protobuf.Message

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.laneshift.conf.BuildInfo
import org.apache.spark.sql.laneshift.driver.{
  DriverState,
  PartitionSite,
  SourceCount,
  SourceThrottle,
  WrongDemand
}
import org.apache.spark.sql.laneshift.proto.{ControlMessages => pb}
import org.apache.spark.sql.laneshift.rescale.{LiveRescale, NotRescalable, OfflineRescale}
import org.apache.spark.sql.laneshift.runtime.{Applied, PartitionCommand}
import org.apache.spark.sql.laneshift.spec.{HandoffMode, RowWork, TaskWish}

/** The one class that Python calls, on a thread of py4j's. Its methods answer with a message Answer, so that Python tells an error of
  * ours from a reply; whatever else is thrown comes out of py4j. A query is named by its id, run id or name.
  */
object LaneshiftGateway {

  def version(): String = BuildInfo.version

  /** @param method of the service Control, or what is below "Beside the driver" in control.proto
    * @param request its request's bytes as Base64
    */
  def ask(method: String, request: String): String =
    Answer(answer(method, Base64.getDecoder.decode(request)))

  private def answer(method: String, request: Array[Byte]): Message = method match {
    case "Snapshot" => snapshot(pb.SnapshotRequest.parseFrom(request).getKnown)
    case "SetLanes" => setLanes(pb.SetLanesRequest.parseFrom(request).getWishesList.asScala.toSeq)
    case "SetTasks" => setTasks(pb.SetTasksRequest.parseFrom(request).getWishesList.asScala.toSeq)
    case "Move" => move(pb.MoveRequest.parseFrom(request).getWishesList.asScala.toSeq)
    case "LimitSource" => limitSource(pb.LimitSourceRequest.parseFrom(request))
    case "Handoffs" => handoffs(pb.HandoffsRequest.parseFrom(request))
    case "Rescale" => rescale(pb.RescaleRequest.parseFrom(request))
    case "Rescaling" => Messages.rescale(newestRescale(pb.RescalingRequest.parseFrom(request).getQuery))
    case "CancelRescale" => cancelRescale(pb.CancelRescaleRequest.parseFrom(request).getQuery)
    case "Claim" => claim(pb.ClaimRequest.parseFrom(request))
    case "Release" => release(pb.ReleaseRequest.parseFrom(request).getAutoscaler)
    case "ClaimKeys" => claimKeys(pb.ClaimKeysRequest.parseFrom(request))
    case "DemandExecutors" => demandExecutors(pb.DemandExecutorsRequest.parseFrom(request))
    case "AwaitPressed" => awaitPressed(pb.AwaitPressedRequest.parseFrom(request))
    case "Decided" => decided(pb.Decision.parseFrom(request))
    case "Status" => status(pb.StatusRequest.parseFrom(request).getDecisions)
    case other => throw new IllegalArgumentException(s"laneshift ${BuildInfo.version} has no method $other")
  }

  private val done = pb.DoneReply.getDefaultInstance

  private def applied(when: Applied): pb.AppliedReply =
    pb.AppliedReply.newBuilder().setApplied(Messages.applied(when)).build()

  /** All that runs; but only the times if all else is as in the snapshot of the number `known`. */
  private def snapshot(known: Long): pb.SnapshotReply = {
    val driver = Inventory.driver
    // Of all executors at a time with what they say of themselves.
    val views = driver.askViews()
    val executors = driver.executors.inventory()
    val timeMs = System.currentTimeMillis()
    // Goes on whatever the clock is set to.
    val countMs = System.nanoTime() / 1000000
    val found = views()
    val partition = driver.snapshots.partitions(found.flatMap(_.operators.flatten))(Messages.partition)
    val live = if (found.exists(_.realTime)) driver.executors.sourceRows() else Map.empty[String, Long]
    val content = pb.SnapshotReply.newBuilder()
      .setVersion(BuildInfo.version)
      .addAllExecutors(executors.map(Messages.executor).asJava)
      .addAllSilent(executors.filter(_.said.isEmpty).map(_.id).asJava)
    found.foreach { q =>
      val read = if (q.realTime) live.get(q.run.runId).map(SourceCount(_, None)) else q.run.read
      content.addQueries(Messages.query(q, read, q.run.tenant, q.run.rescale, partition))
    }
    val said = content.build()
    val number = driver.snapshots.number(said)
    val reply = if (number == known) pb.SnapshotReply.newBuilder().setSame(true) else said.toBuilder
    reply.setTimeMs(timeMs).setCountMs(countMs).setNumber(number).build()
  }

  /** The snapshot and the newest decisions of autoscalers, newest first: what the tab gives to programs. */
  def statusJson(decisions: Int): JValue =
    try MessageJson(status(decisions))
    catch { case problem: ApiError => JObject("failure" -> MessageJson(Answer.failure(problem))) }

  private def status(decisions: Int): Message = {
    val status = pb.StatusReply.newBuilder().setSnapshot(snapshot(0))
    Inventory.driver.decisions.newest(decisions).foreach(d => status.addDecisions(Messages.decision(d)))
    status.build()
  }

  private def setLanes(wishes: Seq[pb.LanesWish]): pb.OutcomesReply = {
    val views = Inventory.driver.views()
    sent("SetLanes", wishes) { wish =>
      val lanes = wish.getLanes
      val partition = Option.when(wish.hasPartition)(wish.getPartition)
      val found = Inventory.partitions(views, wish.getQuery, wish.getOperator, partition)
      val max = found.head.view.spec.options.maxLanes
      if (lanes < 1 || lanes > max) throw ApiError.lanesOutOfRange(lanes, max)
      val addresses = Option.when(wish.hasElsewhere) {
        val hosts = wish.getElsewhere.getLanesMap.asScala.map { case (id, n) => id -> n.intValue }.toMap
        Elsewhere.addresses(hosts, found)
      }
      found.map(p => p -> PartitionCommand.SetLanes(p.view.spec.key, p.view.index, lanes, addresses))
    }((_, answers) => answers.maxBy(_ == Applied.NextBatch))
  }

  private def move(wishes: Seq[pb.MoveWish]): pb.OutcomesReply = {
    val views = Inventory.driver.views()
    sent("Move", wishes) { wish =>
      val (shard, lane) = (wish.getShard, wish.getToLane)
      val found = Inventory.partitions(views, wish.getQuery, wish.getOperator, Some(wish.getPartition)).head
      val shards = found.view.spec.options.shards
      if (shard < 0 || shard >= shards) throw ApiError.noSuchShard(shard, shards)
      val lanes = math.max(found.view.lanes, found.view.wantedLanes)
      if (lane < 0 || lane >= lanes) throw ApiError.noSuchLane(lane, lanes)
      Seq(found -> PartitionCommand.MoveShard(found.view.spec.key, found.view.index, shard, lane))
    } { (wish, answers) =>
      answers.head.fold(
        why => throw ApiError.notMovable(wish.getShard, why),
        { case (_, applied) => applied }
      )
    }
  }

  /** Asks for so many tasks for operators' state partitions from the next batch on: a number, `auto` or `stock`. */
  private def setTasks(wishes: Seq[pb.TasksWish]): pb.OutcomesReply = {
    val driver = Inventory.driver
    val views = driver.views()
    outcomes(wishes.map(wish =>
      attempt("SetTasks") {
        val spec = Inventory.partitions(views, wish.getQuery, wish.getOperator, None).head.view.spec
        val tasks = TaskWish.of(wish.getTasks).filter {
          case TaskWish.Exactly(n) => n <= spec.partitions
          case _ => true
        }.getOrElse(throw ApiError.tasksOutOfRange(wish.getTasks, spec.partitions))
        if (spec.handoff == HandoffMode.Dealt) throw ApiError.noStatePartitions(wish.getOperator)
        Inventory.runOf(driver, wish.getQuery).setTasks(wish.getOperator, tasks)
        Applied.NextBatch
      }
    ))
  }

  /** Sends what each wish asks of partitions, all of it together; what comes of a wish is by itself, in the same order. */
  private def sent[W, T](
      method: String,
      wishes: Seq[W]
  )(commands: W => Seq[(PartitionSite, PartitionCommand[T])])(
      outcome: (W, Seq[T]) => Applied
  ): pb.OutcomesReply = {
    val asked = wishes.map(wish => attempt(method)(commands(wish)))
    val answers = Inventory.driver.executors.tell(asked.flatMap(_.getOrElse(Nil))).iterator
    outcomes(wishes.zip(asked).map { case (wish, of) =>
      of.flatMap { sites =>
        val said = sites.map { case (site, _) => site -> answers.next() }
        attempt(method)(outcome(
          wish,
          said.map {
            case (_, Right(Some(answer))) => answer
            case (site, Right(None)) => throw ApiError.partitionGone(site.view.index)
            case (_, Left(why)) => throw ApiError.failed(method, why)
          }
        ))
      }
    })
  }

  private def attempt[T](method: String)(value: => T): Either[ApiError, T] =
    try Right(value)
    catch {
      case problem: ApiError => Left(problem)
      case NonFatal(problem) => Left(ApiError.failed(method, problem.toString))
    }

  private def outcomes(found: Seq[Either[ApiError, Applied]]): pb.OutcomesReply = {
    val reply = pb.OutcomesReply.newBuilder()
    found.foreach { outcome =>
      val out = pb.Outcome.newBuilder()
      outcome.fold(e => out.setFailure(Answer.failure(e)), when => out.setApplied(Messages.applied(when)))
      reply.addOutcomes(out)
    }
    reply.build()
  }

  /** For so many seconds a planner of key distribution decides for an operator: its partitions' own balancers rest, and the row-wise
    * work above its state is apart from the next batch on or not, as `apart` says; without it, as it would be otherwise. Where
    * `hotKeys.spread` is not `auto` it says so in any case. It replaces what was said before; 0 seconds end it.
    */
  private def claimKeys(request: pb.ClaimKeysRequest): Message = {
    val (operatorId, seconds) = (request.getOperator, request.getSeconds)
    checkNumber("seconds", seconds)
    val driver = Inventory.driver
    val found = Inventory.partitions(driver.views(), request.getQuery, operatorId, None)
    val spec = found.head.view.spec
    if (spec.handoff == HandoffMode.Dealt) throw ApiError.noKeys(operatorId)
    if (request.getApart && spec.above == RowWork.Fixed) throw ApiError.nothingAbove(operatorId)
    Inventory.runOf(driver, request.getQuery)
      .claimKeys(operatorId, Option.when(request.hasApart)(request.getApart), seconds)
    driver.executors.tell(
      found.map(p => p -> PartitionCommand.RestBalancer(spec.key, p.view.index, seconds))
    )
    applied(Applied.NextBatch)
  }

  /** The newest handoffs of a query, oldest first; of every query if none is named. */
  private def handoffs(request: pb.HandoffsRequest): Message = {
    val driver = Inventory.driver
    val query = request.getQuery
    val runs = if (query.isEmpty) None else Some(Inventory.runsOf(driver, query).map(_.runId).toSet)
    val found = driver.executors.handoffs(request.getLimit, runs).map(Messages.handoff)
    pb.HandoffsReply.newBuilder().addAllHandoffs(found.asJava).build()
  }

  private def checkNumber(name: String, value: Double): Unit =
    if (!(value >= 0 && value < Double.PositiveInfinity)) throw ApiError.outOfRange(name, value)

  /** Holds back the source of a query for a while. It replaces a limit in force; 0 seconds end that. In micro-batch the next batch is
    * the first.
    */
  private def limitSource(request: pb.LimitSourceRequest): Message = {
    val (query, rate, seconds) = (request.getQuery, request.getRowsPerSecond, request.getDurationS)
    val driver = Inventory.driver
    checkNumber("rows_per_second", rate)
    checkNumber("seconds", seconds)
    SourceThrottle.limit(Inventory.runOf(driver, query), driver.executors, rate, seconds)
      .fold(why => throw ApiError.sourceNotLimited(query, why), applied)
  }

  /** Asks for another number of state partitions of a query that runs. */
  private def rescale(request: pb.RescaleRequest): Message = {
    val driver = Inventory.driver
    val run = Inventory.runOf(driver, request.getQuery)
    val running = run.execution.getOrElse(throw ApiError.queryStopped(request.getQuery))
    val slots = driver.executors.inventory().map(_.cores).sum
    try Messages.rescale(driver.runs.rescale(run, running, request.getPartitions, slots))
    catch { case why: NotRescalable => throw ApiError.notRescalable(request.getQuery, why) }
  }

  private def cancelRescale(query: String): Message = {
    val newest = newestRescale(query)
    newest.cancel()
    Messages.rescale(newest)
  }

  private def newestRescale(query: String): LiveRescale =
    Inventory.runOf(Inventory.driver, query).rescale.getOrElse(throw ApiError.noRescale(query))

  /** Gives the checkpoint of a query that does not run another number of state partitions. */
  def rescaleOffline(spark: SparkSession, checkpoint: String, partitions: Int, check: Boolean): String =
    Answer {
      try Messages.rescale(
          OfflineRescale.run(spark.asInstanceOf[ClassicSession], checkpoint, partitions, check)
        )
      catch { case why: NotRescalable => throw ApiError.notRescalable(checkpoint, why) }
    }

  /** Lets an autoscaler drive a run of a query, or all queries, for so many seconds: no query has two. */
  private def claim(request: pb.ClaimRequest): Message = {
    import request._
    Inventory.driver.claims.claim(getAutoscaler, getPolicy, getRunId, getSeconds).left.foreach {
      case (other, left) => throw ApiError.otherAutoscaler(other, left)
    }
    done
  }

  private def release(autoscaler: String): Message = {
    DriverState.get.foreach(_.claims.release(autoscaler))
    done
  }

  /** Waits for partitions that become pressed, `seconds` at most. A newer call of the same autoscaler ends one that waits. */
  private def awaitPressed(request: pb.AwaitPressedRequest): Message = {
    import request._
    val (seq, heard) = Inventory.driver.presses.await(getAutoscaler, getRunId, getAfter, getSeconds)
    pb.AwaitPressedReply.newBuilder().setSeq(seq).addAllPresses(heard.map(Messages.press).asJava).build()
  }

  /** Executors on demand of an autoscaler: how many there are to be in all, and those of which it needs none any more. */
  private def demandExecutors(request: pb.DemandExecutorsRequest): Message = {
    val driver = Inventory.driver
    val (most, total) = (request.getMost, request.getTotal)
    if (most < 0 || total < 0) throw ApiError.outOfRange("executors", math.min(most, total).toDouble)
    try {
      val view = driver.demand.turn(request.getAutoscaler, most, total, request.getGiveBackList.asScala.toSeq)
      if (driver.demand.needsLooks) driver.looks.begin()
      Messages.demand(view)
    } catch { case wrong: WrongDemand => throw ApiError.wrongDemand(wrong) }
  }

  /** Keeps what an autoscaler has decided, for the UI. */
  private def decided(decision: pb.Decision): Message = {
    Inventory.driver.decisions.add(Messages.decided(decision))
    done
  }
}
