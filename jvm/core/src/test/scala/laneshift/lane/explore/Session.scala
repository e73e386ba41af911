package laneshift.lane.explore

import java.util.ArrayDeque

import scala.collection.mutable.ArrayBuffer

import laneshift.ids.LaneId
import laneshift.lane._

/** One connection of a remote lane: both ends of production, and the two ways between them. */
final class Session(batch: Batch, val lane: LaneId, val number: Int) extends HostWire[Item] {
  import Violation.unless
  import batch.{ledger, scenario}

  val toHost = new Channel[ToHost](ToHost.Closed)
  val toHome = new Channel[ToHome](ToHome.Closed)
  private val readsAhead = scenario.granularity == Granularity.MidBatchRestart
  val home = new HomeEnd[Item](batch.inlet, lane, scenario.remote.windowBytes, readsAhead, this)
  val host = new Host(batch, this)

  /** Home has neither lost nor left it. */
  var isLive = true

  /** Home has heard nothing for too long. */
  var timedOut = false

  def cut(): Unit = {
    toHost.cut()
    toHome.cut()
  }

  // ---- what home tells

  override def rows(first: Long, block: RowBlock[Item]): Unit = {
    unless(
      home.keptBytes - block.bytes < scenario.remote.windowBytes,
      s"rows are sent on top of ${home.keptBytes - block.bytes} bytes"
    )
    unless(first == last + 1, s"row ${last + 1} is sent as number $first")
    sent.addLast(block.asInstanceOf[ArrayBlock])
    last += block.size
    toHost.send(ToHost.Rows(first, block.asInstanceOf[ArrayBlock].sent))
  }
  override def nextInput(): Unit = throw new IllegalStateException("a session has one input here")
  override def arrived(shards: Seq[Int]): Unit = toHost.send(ToHost.Arrived(shards))
  override def recall(shards: Seq[Int], upTo: Long): Unit = toHost.send(ToHost.Recall(shards, upTo))
  override def end(): Unit = toHost.send(ToHost.End)

  // ---- what was sent, as the explorer counts it

  private val sent = new ArrayDeque[ArrayBlock]
  private var at = 0
  private var last, covered = 0L

  /** Rows that frames cover whose outputs have not come: a body that reads ahead has them. */
  private val held = ArrayBuffer.empty[Item]

  /** A frame has been applied: its outputs and states are those of rows that it and earlier ones cover. */
  def requireExact(frame: ToHome.Frame): Unit = {
    val table = batch.inlet.routingTable
    while (covered < frame.covered) {
      unless(!sent.isEmpty, s"a frame covers row ${covered + 1}, which was not sent")
      if (sent.peekFirst.shardAt(at) >= 0) held += sent.peekFirst.itemAt(at)
      at += 1
      covered += 1
      if (at == sent.peekFirst.size) {
        sent.pollFirst()
        at = 0
      }
    }
    val outputs =
      if (frame.outputs == null) Nil else (0 until frame.outputs.size).map(frame.outputs.itemAt)
    outputs.foreach { item =>
      val place = held.indexWhere(_.key == item.key)
      unless(
        place >= 0 && held(place).seq == item.seq,
        s"an output of row ${item.seq} of key ${item.key} comes with a frame that does not cover it"
      )
      held.remove(place)
      val owner = table.owner(scenario.shardOf(item.key))
      unless(owner == lane.value, s"a frame of lane ${lane.value} has rows of lane $owner")
      unless(
        item.seq == ledger.processed(item.key),
        s"row ${item.seq} of key ${item.key} is done after ${ledger.processed(item.key)}"
      )
      ledger.processed(item.key) += 1
    }
    frame.writes.foreach { case (key, state) =>
      unless(state == ledger.processed(key), s"key $key has state $state after ${ledger.processed(key)} rows")
    }
    unless(
      held.isEmpty || (readsAhead && !frame.answers),
      s"a frame covers ${held.size} rows without what follows from them"
    )
  }

  /** Counts the rows that nobody has done: those that frames cover and a body holds, and those that home keeps. */
  def checkPossessions(): Unit = {
    held.foreach(count)
    if (isLive) {
      if (home.keepsRows) home.unacknowledged.foreach(rest => count(rest.block, rest.from))
      unless(
        home.keptBytes < scenario.remote.windowBytes + scenario.blockRows * scenario.rowBytes,
        s"lane ${lane.value} keeps ${home.keptBytes} bytes"
      )
    }
  }

  def count(block: RowBlock[Item], from: Int): Unit = {
    var i = from
    while (i < block.size) {
      if (block.shardAt(i) >= 0) count(block.asInstanceOf[ArrayBlock].itemAt(i))
      i += 1
    }
  }

  private def count(item: Item): Unit = {
    val owner = batch.inlet.routingTable.owner(scenario.shardOf(item.key))
    if (owner != lane.value)
      throw new Violation(s"lane ${lane.value} keeps a row of key ${item.key}, which is lane $owner's")
    ledger.count(item.key, item.seq)
  }

  /** Bytes of kept rows of some shards: they may come back to the queues. */
  def keptBytesOf(isOf: Int => Boolean): Long = home.unacknowledged.map { rest =>
    val block = rest.block.asInstanceOf[ArrayBlock]
    (rest.from until block.size).filter(i => block.shardAt(i) >= 0 && isOf(block.shardAt(i)))
      .map(block.itemAt(_).bytes).sum
  }.sum
}
