package laneshift.lane.explore

import java.util.ArrayDeque

import laneshift.ids.LaneId
import laneshift.lane.{ArrayBlock, Item, Remainder, Taken}

/** A lane's thread: what LocalLane and its operators do, each thing that others could see or come between as a step of its
  * own. The operator has a cache of groups over the shared store, which goes along with its shard where the plan lets shards go
  * between any two rows, and may read rows ahead if its plan restarts for a handoff.
  */
final class LaneActor(batch: Batch, val lane: LaneId)
    extends Actor(batch.firstLane + lane.value, s"lane ${lane.value}") {
  import LaneActor._
  import batch.{inlet, ledger, random, scenario}

  private val blocking = scenario.granularity == Granularity.BetweenBatches
  private val restarts = scenario.granularity == Granularity.MidBatchRestart
  private val readsAhead = if (blocking) Int.MaxValue else if (restarts) 3 else 1
  private val rowsCame = batch.laneTurn(lane)

  private var doing: Doing = Begin

  /** Keys whose timers were due when the lane began, and that it has not fired yet. */
  private var due = List.empty[Int]
  private var afterPut: Doing = Body
  private var block: ArrayBlock = _
  private var at = 0
  private val ahead = new ArrayDeque[Item]
  private val sharesGroups = scenario.granularity == Granularity.MidBatch
  private val groups = if (sharesGroups) batch.groups else new Groups(scenario.keys)
  private var out = new ArrayBlock(scenario.blockRows)
  private var restarting = false
  private var turn = 0
  private var ended = false

  /** How often it may still look again by itself; negative once it waits for a signal. */
  private var looks = 0

  override def isReady: Boolean = !over && (!isAsleep || (doing == Take && looks >= 0))

  override protected def step(): Unit = doing match {
    case Begin =>
      due = (0 until scenario.keys).filter(k =>
        random.nextInt(4) == 0 && inlet.routingTable.owner(scenario.shardOf(k)) == lane.value
      ).toList
      batch.log(s"begins with timers of ${due.mkString(" ")}")
      doing = if (due.isEmpty) Ask else Fire
    case Fire =>
      due = due.tail
      if (due.isEmpty) doing = Ask
    case Ask =>
      batch.log(s"asks for input $turn")
      batch.ask(turn)
      doing = Body
    case Body =>
      if (!ahead.isEmpty && !blocking && (ahead.size >= readsAhead || random.nextBoolean())) work()
      else advance()
    case Take => take()
    case Notice =>
      batch.log("notices that it is recalled")
      restarting = restarts
      doing = if (restarts) Drain else FlushOutputs
    case FlushOutputs => put(LetGo)
    case LetGo => writeLeaving()
    case Switch => letGo()
    case Drain =>
      if (!ahead.isEmpty) work()
      else if (writeBack()) ()
      else if (restarting) doing = FlushOutputs
      else if (ended) doing = Scan
      else {
        turn += 1
        doing = Ask
      }
    case Scan => scan()
    case Open => open()
    case Read => read()
    case Seal => seal()
    case Put => put(afterPut)
    case LastPut => put(Done)
    case Done =>
      batch.log("is done")
      batch.scans.leave(lane)
      batch.producerDone()
      over = true
  }

  // ---- rows

  /** The operator asks for its next row: between two rows. */
  private def advance(): Unit =
    if (inlet.isRecalled(lane) && !blocking) doing = Notice
    else if (block != null && at < block.size) {
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
    val state = groups.stateOf(key, ledger)
    batch.log(s"works on row ${item.seq} of key $key with state $state")
    Violation.unless(state == item.seq, s"row ${item.seq} of key $key finds the state $state")
    groups.put(key, state + 1)
    ledger.processed(key) += 1
    out.append(item, scenario.shardOf(key))
    if (random.nextInt(6) == 0) groups.write(key, ledger, keep = random.nextBoolean())
    if (out.isFull || random.nextInt(8) == 0) putThen(doing)
  }

  // ---- state

  /** Writes one group of its shards; false if none is left. */
  private def writeBack(): Boolean = {
    val key = (0 until scenario.keys).indexWhere { k =>
      groups.has(k) && (!sharesGroups || inlet.routingTable.owner(scenario.shardOf(k)) == lane.value)
    }
    if (key >= 0) {
      batch.log(s"writes key $key")
      groups.write(key, ledger, keep = false)
    }
    key >= 0
  }

  // ---- outputs

  private def putThen(next: Doing): Unit = {
    afterPut = next
    doing = Put
  }

  private def put(next: Doing): Unit =
    if (out.size == 0) doing = next
    else if (batch.put(out)) {
      out = new ArrayBlock(scenario.blockRows)
      doing = next
    } else sleep(batch.notFull)

  // ---- handoffs

  /** The shards that it sees to be recalled before it lets them go. */
  private var leaving = Seq.empty[Int]

  /** What it keeps in memory of a shard that goes elsewhere is written first. */
  private def writeLeaving(): Unit = {
    val recalls = inlet.recalls(lane)
    leaving = recalls.map(_.shard)
    recalls.filter(_.leaves).foreach { recalled =>
      (0 until scenario.keys).filter(scenario.shardOf(_) == recalled.shard)
        .foreach(groups.write(_, ledger, keep = false))
    }
    doing = Switch
  }

  private def letGo(): Unit = {
    var (bytes, rows) = (0L, 0)
    if (block != null) (at until block.size).foreach { i =>
      val shard = block.shardAt(i)
      if (leaving.contains(shard)) {
        bytes += block.itemAt(i).bytes
        rows += 1
      }
    }
    batch.log(s"lets its recalled shards go, with $rows rows of the block at hand")
    batch.mayGrow = bytes
    inlet.letGo(lane, if (block == null) Nil else Seq(Remainder(block, at)), noticedNs = 0L, leaving)
    batch.requireInlet()
    restarting = false
    doing = Body
  }

  // ---- end

  /** The scans that it still has to begin, and those that it has not read to their end: it may go on to the next before,
    * come back to one, or leave it unfinished.
    */
  private var toBegin = (0 until scenario.scans).toList
  private var part: batch.scans.Part = _
  private var unfinished = List.empty[(Int, batch.scans.Part)]

  /** Its part of the scan that it has begun last; null if it made that alone. */
  private var last: batch.scans.Part = _

  private def ownerOf(row: StateRow): Int = batch.finalOwner(scenario.shardOf(row.key))

  private def scan(): Unit = random.nextInt(10) match {
    case 0 if unfinished.nonEmpty =>
      val (number, left) = unfinished.head
      batch.log(s"closes scan $number")
      if (random.nextBoolean()) left.close()
      unfinished = unfinished.tail
    case 1 if toBegin.nonEmpty =>
      batch.log(s"does without scan ${toBegin.head}")
      toBegin = toBegin.tail
    case n if toBegin.nonEmpty && (n < 4 || unfinished.isEmpty) =>
      part = batch.scansLock.within(batch.scans.arrive(lane, toBegin.head))
      batch.log(s"comes to scan ${toBegin.head}${if (part == null) ", alone" else ""}")
      last = part
      if (part != null) doing = Open
      else {
        (0 until scenario.keys).map(k => StateRow(k, ledger.stored(k))).filter(ownerOf(_) == lane.value)
          .foreach(batch.scanned(toBegin.head, _))
        batch.scanEnded(toBegin.head, lane)
        toBegin = toBegin.tail
      }
    case _ if unfinished.nonEmpty => doing = Read
    case _ if toBegin.isEmpty => doing = Seal
    case _ => ()
  }

  private def open(): Unit =
    if (batch.scansLock.within(part.tryOpen(batch.openScan()))) {
      batch.log(s"begins scan ${toBegin.head}")
      unfinished = (toBegin.head, part) :: unfinished
      toBegin = toBegin.tail
      doing = Scan
    } else sleep(batch.scansTurn)

  private def read(): Unit = {
    val (number, from) = unfinished.head
    val rows = batch.scansLock.within(from.tryTake(ownerOf))
    batch.log(s"scan $number gives $rows")
    if (rows == null) sleep(batch.scansTurn)
    else {
      if (rows.isEmpty) {
        batch.scanEnded(number, lane)
        unfinished = unfinished.tail
      } else rows.forEach { row =>
        Violation.unless(ownerOf(row) == lane.value, s"$name is dealt key ${row.key}")
        batch.scanned(number, row)
      }
      doing = Scan
    }
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
    due.foreach(k => requireOwn(scenario.shardOf(k), "timer that is due"))
    Violation.unless(
      last == null || last.waiting < scenario.scanBytes + StoreScan.Fetched * scenario.rowBytes,
      s"$name is dealt rows without bound"
    )
    if (!sharesGroups) {
      (0 until scenario.keys).foreach(k => if (groups.has(k)) requireOwn(scenario.shardOf(k), "cached group"))
      groups.check(ledger)
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
    case Open | Read => ()
    case _ =>
      Violation.unless(!batch.fits(out.bytes), s"$name could put out but is not woken")
  }
}

object LaneActor {
  private sealed trait Doing
  private case object Begin extends Doing
  private case object Fire extends Doing
  private case object Ask extends Doing
  private case object Body extends Doing
  private case object Take extends Doing
  private case object Notice extends Doing
  private case object FlushOutputs extends Doing
  private case object LetGo extends Doing
  private case object Switch extends Doing
  private case object Drain extends Doing
  private case object Scan extends Doing
  private case object Open extends Doing
  private case object Read extends Doing
  private case object Seal extends Doing
  private case object Put extends Doing
  private case object LastPut extends Doing
  private case object Done extends Doing
}
