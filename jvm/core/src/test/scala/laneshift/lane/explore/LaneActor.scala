package laneshift.lane.explore

import java.util.ArrayDeque

import laneshift.ids.LaneId
import laneshift.lane.{ArrayBlock, Hold, Item, Taken}
import laneshift.routing.Handoff
import laneshift.testing.{Fault, Faults}

/** A lane's thread: what LaneRunner and its operators do, each thing that others could see or come between as a step of its
  * own. The operator has a cache of groups over the shared store, and may read rows ahead if its plan restarts for a handoff.
  */
final class LaneActor(batch: Batch, val lane: LaneId)
    extends Actor(Batch.Lanes + lane.value, s"lane ${lane.value}") {
  import LaneActor._
  import batch.{inlet, ledger, random, scenario}

  private val blocking = scenario.granularity == Granularity.BetweenBatches
  private val restarts = scenario.granularity == Granularity.MidBatchRestart
  private val readsAhead = if (blocking) Int.MaxValue else if (restarts) 3 else 1
  private val rowsCame = batch.laneTurn(lane)

  private var doing: Doing = Ask
  private var afterPut: Doing = Body
  private var block: ArrayBlock = _
  private var at = 0
  private val ahead = new ArrayDeque[Item]
  private val cache = Array.fill(scenario.keys)(Absent)
  private val dirty = new Array[Boolean](scenario.keys)
  private var out = new ArrayBlock(scenario.blockRows)
  private var handoffs: List[Handoff] = Nil
  private var restarting = false
  private var turn = 0
  private var ended = false

  /** How often it may still look again by itself; negative once it waits for a signal. */
  private var looks = 0

  override def isReady: Boolean = !over && (!isAsleep || (doing == Take && looks >= 0))

  override protected def step(): Unit = doing match {
    case Ask =>
      batch.log(s"asks for input $turn")
      batch.ask(turn)
      doing = Body
    case Body =>
      if (!ahead.isEmpty && !blocking && (ahead.size >= readsAhead || random.nextBoolean())) work()
      else advance()
    case Take => take()
    case Notice => notice()
    case FlushShards =>
      handoffs.foreach(h => flushShard(h.shard.value))
      doing = FlushOutputs
    case FlushOutputs => put(Acknowledge)
    case Acknowledge => acknowledge()
    case Drain =>
      if (!ahead.isEmpty) work()
      else if (writeBack()) ()
      else if (restarting) notice()
      else if (ended) doing = Scan
      else {
        turn += 1
        doing = Ask
      }
    case Scan => scan()
    case Seal => seal()
    case Put => put(afterPut)
    case LastPut => put(Done)
    case Done =>
      batch.log("is done")
      batch.producerDone()
      over = true
  }

  // ---- rows

  /** The operator asks for its next row: between two rows. */
  private def advance(): Unit =
    if (inlet.isRecalled(lane) && !blocking) {
      batch.log("sees that it is recalled")
      doing = Notice
    } else if (block != null && at < block.size) {
      if (block.shardAt(at) >= 0) {
        batch.log(s"reads row ${block.itemAt(at).seq} of key ${block.itemAt(at).key}")
        ahead.addLast(block.itemAt(at))
      }
      at += 1
    } else {
      block = null
      looks = random.nextInt(3)
      if (out.size == 0) doing = Take else putThen(Take)
    }

  private def take(): Unit = {
    val taken = batch.inletLock.within(inlet.tryTake(lane, looks > 0))
    batch.log(s"takes $taken")
    batch.requireInlet()
    taken match {
      case null =>
        sleep(rowsCame)
        looks -= 1
      case Taken.Rows(rows) =>
        block = rows.asInstanceOf[ArrayBlock]
        at = 0
        doing = Body
      case Taken.Recall => doing = Body
      case Taken.NextInput => doing = Drain
      case Taken.End =>
        Violation.unless(turn == scenario.inputs - 1, s"$name comes to the end at input $turn")
        ended = true
        doing = Drain
    }
  }

  private def work(): Unit = {
    val item = ahead.pollFirst()
    Violation.unless(item.input == turn, s"a row of input ${item.input} while input $turn is read")
    val key = item.key
    val state = if (cache(key) != Absent) cache(key) else ledger.stored(key)
    batch.log(s"works on row ${item.seq} of key $key with state $state")
    Violation.unless(state == item.seq, s"row ${item.seq} of key $key finds the state $state")
    cache(key) = state + 1
    dirty(key) = true
    ledger.processed(key) += 1
    out.append(item, scenario.shardOf(key))
    if (random.nextInt(6) == 0) write(key, keep = random.nextBoolean())
    if (out.isFull || random.nextInt(8) == 0) putThen(doing)
  }

  // ---- state

  private def write(key: Int, keep: Boolean): Unit = {
    if (dirty(key)) {
      ledger.stored(key) = cache(key)
      dirty(key) = false
    }
    if (!keep) cache(key) = Absent
  }

  /** Writes one group; false if nothing is cached. */
  private def writeBack(): Boolean = {
    val key = cache.indexWhere(_ != Absent)
    if (key >= 0) {
      batch.log(s"writes key $key")
      write(key, keep = false)
    }
    key >= 0
  }

  private def flushShard(shard: Int): Unit = if (!Faults.isOn(Fault.CacheNotFlushed)) {
    batch.log(s"flushes shard $shard")
    var key = 0
    while (key < cache.length) {
      if (scenario.shardOf(key) == shard) write(key, keep = false)
      key += 1
    }
  }

  // ---- outputs

  private def putThen(next: Doing): Unit = {
    afterPut = next
    doing = Put
  }

  private def put(next: Doing): Unit =
    if (out.size == 0) doing = next
    else if (next == Acknowledge && Faults.isOn(Fault.OutputsAfterAcknowledgement)) doing = next
    else if (batch.put(out)) {
      out = new ArrayBlock(scenario.blockRows)
      doing = next
    } else sleep(batch.notFull)

  // ---- handoffs

  /** Asks which shards are to go. A plan that restarts first ends its body, and then asks again. */
  private def notice(): Unit = {
    handoffs = inlet.recalls(lane).toList
    batch.log(s"notices ${handoffs.map(_.id)}")
    if (restarts && !restarting) {
      restarting = true
      doing = Drain
    } else if (handoffs.isEmpty) {
      restarting = false
      doing = Body
    } else doing = if (restarts) FlushOutputs else FlushShards
  }

  private def acknowledge(): Unit = {
    val handoff = handoffs.head
    handoffs = handoffs.tail
    val remainder = new Hold[Item](batch.newBlock)
    if (block != null) block.extract(handoff.shard.value, at, remainder)
    batch.log(
      s"acknowledges handoff ${handoff.id} of shard ${handoff.shard.value} with ${remainder.rows} rows"
    )
    batch.mayGrow = remainder.bytes
    inlet.acknowledge(handoff, if (remainder.rows == 0 && random.nextBoolean()) null else remainder)
    batch.requireInlet()
    if (handoffs.isEmpty) {
      restarting = false
      doing = Body
    }
  }

  // ---- end

  /** The rows of its own shards, all of them final. */
  private def scan(): Unit = {
    batch.log("scans its shards")
    var key = 0
    while (key < scenario.keys) {
      if (batch.finalOwner(scenario.shardOf(key)) == lane.value) batch.scanned(key)
      key += 1
    }
    doing = Seal
  }

  private def seal(): Unit = {
    batch.log("seals the store")
    batch.seal(lane)
    doing = LastPut
  }

  // ---- checks

  /** Counts the rows that it has, in the order in which they are due, and checks that all it has is its own. */
  def checkPossessions(): Unit = {
    if (!ahead.isEmpty) ahead.forEach { item =>
      requireOwn(scenario.shardOf(item.key), "read row")
      ledger.count(item.key, item.seq)
    }
    if (block != null) {
      var i = at
      while (i < block.size) {
        val shard = block.shardAt(i)
        if (shard >= 0) {
          requireOwn(shard, "taken row")
          ledger.count(block.itemAt(i).key, block.itemAt(i).seq)
        }
        i += 1
      }
    }
    var key = 0
    while (key < cache.length) {
      if (cache(key) != Absent) {
        requireOwn(scenario.shardOf(key), "cached group")
        if (cache(key) != ledger.processed(key))
          throw new Violation(
            s"$name caches state ${cache(key)} of key $key, which has seen ${ledger.processed(key)} rows"
          )
      }
      key += 1
    }
  }

  private def requireOwn(shard: Int, what: String): Unit = {
    val owner = inlet.routingTable.owner(shard)
    if (owner != lane.value) throw new Violation(s"$name has a $what of shard $shard, which is lane $owner's")
  }

  override def checkWoken(): Unit = doing match {
    case Take =>
      val told = inlet.isRecalled(lane) || batch.hasEnded
      val rows = looks < 0 && inlet.queued(lane.value).iterator().hasNext
      Violation.unless(!told && !rows, s"$name could go on but is not woken")
    case _ =>
      Violation.unless(!batch.fits(out.bytes), s"$name could put out but is not woken")
  }
}

object LaneActor {
  private val Absent = -1L

  private sealed trait Doing
  private case object Ask extends Doing
  private case object Body extends Doing
  private case object Take extends Doing
  private case object Notice extends Doing
  private case object FlushShards extends Doing
  private case object FlushOutputs extends Doing
  private case object Acknowledge extends Doing
  private case object Drain extends Doing
  private case object Scan extends Doing
  private case object Seal extends Doing
  private case object Put extends Doing
  private case object LastPut extends Doing
  private case object Done extends Doing
}
