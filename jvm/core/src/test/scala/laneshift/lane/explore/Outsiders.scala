package laneshift.lane.explore

import laneshift.ids.{LaneId, ShardId}
import laneshift.routing.MoveReason

/** Planner, user and fault mode in one: moves, doubled and contradicting ones, lane counts. */
final class Control(batch: Batch, wishes: Int) extends Actor(Batch.Control, "control") {
  import batch.{inlet, random, scenario}
  private var left = wishes
  private var (shard, lane) = (0, 0)
  over = left == 0

  /** Where lanes are remote, rows take more steps, and wishes come later. */
  private var notBefore = 0

  override def isReady: Boolean = super.isReady && batch.steps >= notBefore

  override protected def step(): Unit = {
    left -= 1
    over = left == 0
    if (batch.slots.nonEmpty) notBefore = batch.steps + random.nextInt(16)
    random.nextInt(10) match {
      case 0 =>
        val count = 1 + random.nextInt(scenario.maxLanes)
        batch.log(s"wants $count lanes")
        val done = inlet.setLanes(count)
        Violation.unless(
          done.isRight == !(batch.stopped || batch.closing),
          s"setLanes gave $done, stopped: ${batch.stopped}, closing: ${batch.closing}"
        )
      case 1 | 2 if batch.slots.nonEmpty =>
        lane = anyLane()
        (0 until scenario.shards).filter(_ => random.nextBoolean()).foreach { s =>
          shard = s
          move()
        }
      case kind =>
        // The same wish again, a contradicting one, or a new one.
        if (kind != 1) lane = anyLane()
        if (kind > (if (batch.slots.isEmpty) 2 else 6)) shard = random.nextInt(scenario.shards)
        move()
    }
  }

  private def move(): Unit = {
    val free = inlet.routingTable.handoffOf(shard) == null && inlet.owner(shard) != lane
    val allowed = free && owns(lane) && !batch.stopped && !batch.closing
    val moved = inlet.move(ShardId(shard), LaneId(lane), MoveReason.Motion)
    batch.log(s"wants shard $shard on lane $lane: $moved")
    Violation.unless(
      moved.isRight == allowed,
      s"a move ${if (allowed) "is refused" else "is begun"}: $moved"
    )
  }

  /** Mostly a remote one, if there are such. */
  private def anyLane(): Int =
    if (batch.slots.isEmpty || random.nextInt(3) == 0) random.nextInt(scenario.maxLanes)
    else scenario.maxLanes + random.nextInt(batch.slots.size)

  private def owns(lane: Int): Boolean =
    if (lane >= scenario.maxLanes) batch.slots(lane - scenario.maxLanes).owns
    else inlet.stats.active.contains(lane)
}

/** A failure at a step of the schedule's choice: of a lane, of the receiver, of the task's own thread, or from outside. */
final class Failer(batch: Batch, at: Int) extends Actor(Batch.Failer, "failure") {
  private var stage = 0
  def hasStruck: Boolean = stage > 0

  override def isReady: Boolean = super.isReady && (hasStruck || (at >= 0 && batch.steps >= at))

  /** A thread of the batch has failed by itself. */
  def begin(cause: Throwable): Unit = if (!hasStruck) {
    batch.cause = cause
    stage = 1
  }

  override protected def step(): Unit = {
    stage += 1
    stage match {
      case 1 =>
        val victims = batch.threads.filter(!_.over)
        val victim = batch.random.nextInt(victims.size + 1)
        val what = if (victim < victims.size) victims(victim).name else "task, killed from outside"
        if (victim < victims.size) victims(victim).over = true
        batch.log(s"$what fails")
        batch.cause = new PlannedFailure(s"first: $what")
      case 2 =>
        batch.log("stops the inlet")
        batch.inlet.fail(batch.cause)
        batch.stopped = true
      case 3 =>
        batch.log("stops the outlet and scans")
        batch.outlet.fail(batch.cause)
        batch.scans.fail(batch.cause)
        batch.outletStopped = true
      case _ =>
        batch.log("a second failure")
        batch.inlet.fail(new PlannedFailure("second"))
        batch.outlet.fail(new PlannedFailure("second"))
        batch.scans.fail(new PlannedFailure("second"))
        over = true
    }
  }
}

final class PlannedFailure(what: String) extends RuntimeException(what, null, false, false)
