package laneshift.lane.explore

import laneshift.ids.LaneId
import laneshift.lane.{ArrayBlock, Item}

/** A thread of the partition, or somebody outside, as a sequence of steps that never wait. */
abstract class Actor(val index: Int, val name: String) {

  /** It takes no more steps. */
  var over = false

  /** Where it waits for a signal, or null. */
  protected var sleepsOn: VirtualCondition = _

  def isAsleep: Boolean = sleepsOn != null && sleepsOn.isWaiting(index)
  def isReady: Boolean = !over && !isAsleep

  protected def sleep(on: VirtualCondition): Unit = {
    sleepsOn = on
    on.add(index)
  }

  final def run(): Unit = {
    if (sleepsOn != null) {
      sleepsOn.remove(index)
      sleepsOn = null
    }
    step()
  }

  protected def step(): Unit

  /** Throws if it could go on but nobody has told it. */
  def checkWoken(): Unit = ()
}

/** The thread that reads the batch's input. */
final class Receiver(batch: Batch, input: Array[Item]) extends Actor(Batch.Receiver, "receiver") {
  import batch.{inlet, ledger, scenario}
  private var at = 0
  private var turn = 0
  private var finishing = false

  /** Where shards do not move, what it has collected for each lane, and the lane whose block has to go now, or -1. */
  private val blocks =
    if (batch.isFixed) Array.fill(scenario.maxLanes)(new ArrayBlock(scenario.blockRows)) else null
  private var going = -1
  private var begun = false

  override def isReady: Boolean = super.isReady && (batch.isAsked(turn) || batch.stopped)

  private def maySleep(shard: Int): Boolean = !batch.hasRoom(shard) || batch.mayBeLate(shard)

  override protected def step(): Unit =
    if (batch.isFixed && !begun) {
      begun = true
      inlet.fix()
      batch.requireInlet()
    } else if (going >= 0) give()
    else if (blocks != null && collects) collect()
    else if (turn < (if (at < input.length) input(at).input else scenario.inputs - 1)) {
      turn += 1
      batch.log(s"goes on to input $turn")
      inlet.nextInput()
      batch.requireInlet()
    } else if (at < input.length) {
      val row = input(at)
      val shard = scenario.shardOf(row.key)
      val (mayCome, mayWait) = (batch.hasRoom(shard), maySleep(shard))
      val taken = batch.inletLock.within(inlet.tryOffer(row, shard))
      batch.log(s"offers row ${row.seq} of key ${row.key}, shard $shard: $taken")
      Violation.unless(
        if (taken) mayCome else mayWait,
        s"a row was ${if (taken) "taken" else "kept waiting"} against the bounds"
      )
      batch.requireInlet()
      if (taken) {
        batch.mayGrow = row.bytes
        ledger.offered(row.key) += 1
        at += 1
      } else sleep(batch.receiverTurn)
    } else {
      finishing = true
      val before = batch.closing
      val unworked = batch.slots.filter(_.hasRows)
      over = batch.inletLock.within(inlet.tryFinish(batch.inputEnded))
      batch.closing = inlet.isClosing
      batch.log(s"ends the input: $over${if (batch.closing) "" else ", hosts have rows"}")
      Violation.unless(
        before || !batch.closing || unworked.isEmpty,
        s"rows of ${unworked.map(_.lane)} are sent home at the end of the input"
      )
      batch.requireInlet()
      if (!over) sleep(batch.receiverTurn)
    }

  /** Rows of the input at hand are left, or some have been collected. */
  private def collects: Boolean =
    (at < input.length && input(at).input == turn) || blocks.exists(_.size > 0)

  private def collect(): Unit =
    if (at < input.length && input(at).input == turn) {
      val shard = scenario.shardOf(input(at).key)
      val lane = inlet.routingTable.owner(shard)
      blocks(lane).append(input(at), shard)
      at += 1
      if (blocks(lane).isFull) going = lane
    } else going = blocks.indexWhere(_.size > 0)

  private def give(): Unit = {
    val block = blocks(going)
    val shard = block.shardAt(0)
    val (mayCome, mayWait) = (batch.hasRoom(shard), maySleep(shard))
    val taken = batch.inletLock.within(inlet.tryOffer(block, LaneId(going)))
    batch.log(s"gives lane $going $block: $taken")
    Violation.unless(
      if (taken) mayCome else mayWait,
      s"rows were ${if (taken) "taken" else "kept waiting"} against the bounds"
    )
    batch.requireInlet()
    if (taken) {
      batch.mayGrow = block.bytes
      (0 until block.size).foreach(i => ledger.offered(block.itemAt(i).key) += 1)
      blocks(going) = new ArrayBlock(scenario.blockRows)
      going = -1
    } else sleep(batch.receiverTurn)
  }

  override def checkWoken(): Unit = Violation.unless(
    if (going >= 0) maySleep(blocks(going).shardAt(0))
    else if (finishing) inlet.awaitsBacklog || (batch.closing && inlet.routingTable.inFlight > 0)
    else maySleep(scenario.shardOf(input(at).key)),
    "the receiver could go on but is not woken"
  )
}

/** The task's own thread: puts out what the lanes give it, waits for all threads, and ends the batch. */
final class Emitter(batch: Batch) extends Actor(Batch.Emitter, "emitter") {
  import batch.ledger
  private var joining = false
  var committed = false

  override def isReady: Boolean = super.isReady && (!joining || batch.threadsAreOver)

  override protected def step(): Unit =
    if (joining) {
      over = true
      if (batch.cause == null) {
        batch.commit()
        committed = true
      }
      batch.log(s"ends the batch, committed: $committed")
    } else {
      val taken = batch.outletLock.within(batch.outlet.tryTake())
      batch.requireOutlet()
      if (taken == null) {
        batch.log("waits for outputs")
        sleep(batch.notEmpty)
      } else if (taken.isEmpty) {
        batch.log("sees the end of the outputs")
        joining = true
      } else {
        val block = taken.get.asInstanceOf[ArrayBlock]
        batch.log(s"puts out $block")
        batch.outputTaken(block)
        (0 until block.size).map(block.itemAt).foreach { item =>
          val due = ledger.emitted(item.key)
          Violation.unless(item.seq == due, s"row ${item.seq} of key ${item.key} comes out where $due is due")
          ledger.emitted(item.key) += 1
        }
      }
    }

  override def checkWoken(): Unit = Violation.unless(
    batch.outputBytes == 0 && batch.producers > 0,
    "the emitter could go on but is not woken"
  )
}
