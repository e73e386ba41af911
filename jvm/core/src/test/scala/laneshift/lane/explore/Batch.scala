package laneshift.lane.explore

import java.util.SplittableRandom

import scala.collection.mutable.ArrayBuffer

import laneshift.ids.LaneId
import laneshift.lane._

/** One batch of a partition: the inlet, outlet and seals of production, and actors that take steps in the order that the
  * chooser wants. After every step everything is checked that can be said of the batch at any moment.
  */
final class Batch(
    val scenario: Scenario,
    val ledger: Ledger,
    val random: SplittableRandom,
    routing: Array[Int],
    initialLanes: Int,
    trace: Trace
) {
  import Violation.unless

  var steps = 0

  /** The first local lane's number as an actor: those before it are there from the beginning. */
  val firstLane: Int =
    if (scenario.remote.lanes == 0) Batch.Fates else Batch.Slots + scenario.remote.lanes * Slot.Actors

  /** Groups that go along with their shard. */
  val groups = new Groups(scenario.keys)

  /** Why the task fails; then whether the inlet and the outlet have been told. */
  var cause: Throwable = _
  var stopped = false
  var outletStopped = false

  /** The input ends, and no shard moves any more. */
  var closing = false

  /** Bytes by which the step may let the inlet grow. */
  var mayGrow = 0L

  val inletLock = new VirtualLock
  val outletLock = new VirtualLock
  val scansLock = new VirtualLock
  private var now = 0L
  private var handoffId = 0L

  val newBlock: () => RowBlock[Item] = () => new ArrayBlock(scenario.blockRows)

  val inlet = new Inlet[Item](
    scenario.limits,
    routing,
    initialLanes,
    newBlock,
    () => { handoffId += 1; handoffId },
    handoff => unless(!inletLock.isHeld, s"$handoff is told of under the lock"),
    startLane,
    idleIsDone = scenario.granularity == Granularity.MidBatch,
    () => { now += 1; now },
    inletLock
  )
  val outlet = new Outlet[Item](scenario.outletBytes, newBlock, outletLock)

  val receiverTurn: VirtualCondition = inletLock.conditions(0)
  def laneTurn(lane: LaneId): VirtualCondition = inletLock.conditions(1 + lane.value)
  val notEmpty: VirtualCondition = outletLock.conditions(0)
  val notFull: VirtualCondition = outletLock.conditions(1)
  def scansTurn: VirtualCondition = scansLock.conditions(0)

  val actors = ArrayBuffer.empty[Actor]
  private val lanes = ArrayBuffer.empty[LaneActor]
  val slots: Seq[Slot] =
    Vector.tabulate(scenario.remote.lanes)(i => new Slot(this, i, Batch.Slots + i * Slot.Actors))
  private val chooser = Chooser.draw(random, firstLane + scenario.maxLanes)
  private var acting: Actor = _

  private val emitter = new Emitter(this)
  private val failer =
    new Failer(this, if (random.nextInt(4) == 0) random.nextInt(Batch.LatestFailure) else -1)

  /** Shards do not move within the batch. */
  val isFixed: Boolean = scenario.granularity == Granularity.BetweenBatches

  private def wishes: Int = if (isFixed) 0 else scenario.wishes

  private def drawInput(): Array[Item] = {
    val next = ledger.committed.clone()
    val rows = random.nextInt(scenario.rows + 1)
    Array.tabulate(rows) { i =>
      var key = random.nextInt(scenario.keys)
      (1 until scenario.skew).foreach(_ => key = math.min(key, random.nextInt(scenario.keys)))
      next(key) += 1
      Item(key, next(key) - 1, 1L + random.nextInt(scenario.rowBytes), input = i * scenario.inputs / rows)
    }
  }

  def addProducer(): Unit = {
    outletLock.within(outlet.addProducer())
    producers += 1
  }

  private def startLane(lane: LaneId): Unit = {
    addProducer()
    val actor = new LaneActor(this, lane)
    unless(lane.value == lanes.size, s"lane ${lane.value} starts as number ${lanes.size}")
    lanes += actor
    actors += actor
  }

  def threads: Seq[Actor] =
    (actors.take(Batch.Control) ++ lanes ++ slots.map(_.proxy).filterNot(_.isAway)).toSeq
  def threadsAreOver: Boolean =
    actors(Batch.Receiver).over && lanes.forall(_.over) && slots.forall(s => s.proxy.over || s.proxy.isAway)

  /** A thread fails, and takes the task with it. */
  def fails(what: String): Unit = failer.begin(new PlannedFailure(what))

  def log(what: => String): Unit = if (trace != null) trace.add(acting.name, what)

  // ---- outlet

  var producers = 0
  var outputBytes = 0L

  def fits(bytes: Long): Boolean = outputBytes == 0 || outputBytes + bytes <= scenario.outletBytes

  def put(block: ArrayBlock): Boolean = {
    val done = outletLock.within(outlet.tryPut(block))
    log(s"puts out $block: $done")
    requireOutlet()
    unless(
      done == fits(block.bytes),
      s"outputs were ${if (done) "taken" else "kept waiting"} against the bound"
    )
    if (done) outputBytes += block.bytes
    done
  }

  def outputTaken(block: ArrayBlock): Unit = outputBytes -= block.bytes

  def producerDone(): Unit = {
    outlet.producerDone()
    producers -= 1
  }

  // ---- end

  private var owners: Array[Int] = _
  private var participants = Seq.empty[Int]
  private var sealedLanes = 0
  private var commits = 0
  private val seals = new Seals(() => participants.size, () => cause)

  /** How many lanes have found each key, by scan. */
  private val found = Array.fill(scenario.scans, scenario.keys)(0)
  private val sources = ArrayBuffer.empty[StoreScan]
  val scans = new EndScans[StateRow](
    scenario.maxLanes,
    () => participants,
    scenario.scanBytes,
    _ => scenario.rowBytes,
    scansLock
  )

  val inputEnded: (Array[Int], Seq[Int]) => Unit = (fixed, last) => {
    owners = fixed
    participants = last
    unless(last == lanes.indices, s"lanes ${last.mkString(" ")} of ${lanes.size} take part in the end")
    unless(
      fixed.forall(_ < scenario.maxLanes),
      s"the input ends with shards elsewhere: ${fixed.mkString(" ")}"
    )
  }

  /** In which order the lanes read the inputs: each in turn. */
  private val turns = new InputTurns(scenario.inputs)
  private var asked = 0

  def ask(turn: Int): Unit = {
    turns.ask(turn, turn)
    asked = math.max(asked, turn + 1)
  }
  def isAsked(turn: Int): Boolean = turn < asked && turns.await(turn) == turn

  def hasEnded: Boolean = owners != null
  def finalOwner(shard: Int): Int = owners(shard)

  def scanned(scan: Int, row: StateRow): Unit = {
    found(scan)(row.key) += 1
    unless(
      row.state == ledger.offered(row.key),
      s"scan $scan finds the state ${row.state} of key ${row.key} after ${ledger.offered(row.key)} rows"
    )
  }

  /** A lane has come to the end of a scan: it has found each of its keys. */
  def scanEnded(scan: Int, lane: LaneId): Unit = (0 until scenario.keys).foreach { key =>
    if (finalOwner(scenario.shardOf(key)) == lane.value)
      unless(found(scan)(key) == 1, s"scan $scan gives key $key ${found(scan)(key)} times")
  }

  def openScan(): StoreScan = {
    log("opens a scan")
    val source = new StoreScan(ledger, scenario)
    sources += source
    source
  }

  def seal(lane: LaneId): Unit = {
    val commit = seals.seal(lane)
    sealedLanes += 1
    unless(cause == null, "a store is sealed after a failure")
    if (commit) {
      commits += 1
      unless(commits == 1, "the store is committed twice")
      unless(sealedLanes == lanes.size, s"the store is committed after $sealedLanes of ${lanes.size} seals")
      ledger.requireAll(ledger.stored, "stored")
    }
  }

  def commit(): Unit = {
    unless(commits == 1, "the batch ends without a commit of its store")
    unless(found.forall(_.forall(_ <= 1)), s"scans by key: ${found.map(_.mkString(" ")).mkString("; ")}")
    unless(sources.forall(_.closed), "a scan is left open")
    checkStats()
    ledger.commitBatch()
    val stats = inlet.stats
    unless(stats.inFlight == 0 && inlet.bufferedBytes == 0, "something is left over")
    unless(stats.routing.sameElements(owners), "the routing is not final")
  }

  // ---- the schedule

  /** Runs the batch to its end; true if it was committed. */
  def run(): Boolean = {
    actors ++= Seq(new Receiver(this, drawInput()), emitter, new Control(this, wishes), failer)
    if (slots.nonEmpty) actors += new Fates(this, slots, Batch.Fates)
    actors ++= slots.flatMap(_.actors)
    slots.foreach(slot => if (random.nextInt(4) > 0) slot.open())
    (0 until initialLanes).foreach(i => startLane(LaneId(i)))
    while (!isOver) {
      var ready, able = 0
      var i = 0
      while (i < actors.size) {
        val actor = actors(i)
        if (actor.isReady) {
          ready |= 1 << actor.index
          // Whoever may be silent for ever does not count.
          if (!isSilent(actor.index)) able += 1
        }
        i += 1
      }
      unless(able > 0, "nobody can go on")
      unless(steps < Batch.MostSteps, s"no end after $steps steps")
      step(actors(chooser.next(ready)))
    }
    emitter.committed
  }

  /** It may never do anything. */
  private def isSilent(actor: Int): Boolean = actor == Batch.Control ||
    (actor == Batch.Failer && !failer.hasStruck) || (actor == Batch.Fates && slots.nonEmpty)

  private def isOver: Boolean = emitter.over && threadsAreOver

  private def step(actor: Actor): Unit = {
    acting = actor
    steps += 1
    mayGrow = 0L
    try actor.run()
    catch {
      case e: PartitionStopped if cause != null && (e.getCause eq cause) => isStopped(actor)
      case e: PlannedFailure if (e eq cause) && (actor eq emitter) => isStopped(actor)
    }
    unless(!inletLock.isHeld && !outletLock.isHeld && !scansLock.isHeld, "a lock is still held")
    if (!stopped && !emitter.committed) check()
  }

  private def isStopped(actor: Actor): Unit = {
    log("is stopped")
    actor.over = true
  }

  def requireInlet(): Unit = unless(!stopped, "the inlet goes on after a failure")
  def requireOutlet(): Unit = unless(!outletStopped, "the outlet goes on after a failure")

  // ---- checks

  private val laneBytes = new Array[Long](scenario.limits.slots)
  private var buffered = 0L

  /** The bounds as docs/handoff.md, section 7, has them. */
  def hasRoom(shard: Int): Boolean =
    buffered < scenario.limits.totalBytes &&
      laneBytes(inlet.routingTable.owner(shard)) < scenario.limits.queueBytes

  /** More rows wait for its lane than may in any case. */
  def mayBeLate(shard: Int): Boolean = scenario.limits.queueTime.exists { bound =>
    inlet.stats.queueRows.applyOrElse(inlet.routingTable.owner(shard), (_: Int) => 0L) >= bound.leastRows
  }

  private val mostBuffered =
    scenario.limits.totalBytes + scenario.rowBytes +
      scenario.limits.slots * scenario.blockRows * scenario.rowBytes +
      scenario.remote.lanes * scenario.remote.windowBytes

  private def check(): Unit = {
    val before = buffered
    buffered = 0L
    ledger.beginCount()
    var i = 0
    while (i < lanes.size) {
      lanes(i).checkPossessions()
      checkQueue(i)
      i += 1
    }
    i = 0
    while (i < slots.size) {
      slots(i).proxy.checkPossessions()
      checkQueue(slots(i).lane.value)
      i += 1
    }
    groups.check(ledger)
    if (slots.nonEmpty) checkGroups()
    ledger.endCount()
    unless(buffered == inlet.bufferedBytes, s"$buffered bytes wait, not ${inlet.bufferedBytes}")
    unless(buffered <= before + mayGrow, s"${buffered - before} bytes more, not $mayGrow")
    unless(buffered <= mostBuffered, s"$buffered bytes wait, more than $mostBuffered")
    i = 0
    while (i < actors.size) {
      val actor = actors(i)
      if (!actor.over && actor.isAsleep) actor.checkWoken()
      i += 1
    }
    if (random.nextInt(8) == 0) checkStats()
  }

  /** What is kept in memory here must be in the store before others read it. */
  private def checkGroups(): Unit = {
    var key = 0
    while (key < scenario.keys) {
      if (groups.has(key) && inlet.routingTable.owner(scenario.shardOf(key)) >= scenario.maxLanes)
        throw new Violation(s"a group of key $key is kept here, but its shard is elsewhere")
      key += 1
    }
  }

  private def checkQueue(lane: Int): Unit = {
    laneBytes(lane) = 0L
    inlet.queued(lane).forEach { block =>
      laneBytes(lane) += count(block)
      var row = 0
      while (row < block.size) {
        val shard = block.shardAt(row)
        if (shard >= 0 && inlet.routingTable.owner(shard) != lane)
          throw new Violation(s"a row of shard $shard is queued at lane $lane, against the routing")
        row += 1
      }
    }
    buffered += laneBytes(lane)
  }

  private def count(block: RowBlock[Item]): Long = {
    var i = 0
    while (i < block.size) {
      if (block.shardAt(i) >= 0) {
        val item = block.asInstanceOf[ArrayBlock].itemAt(i)
        ledger.count(item.key, item.seq)
      }
      i += 1
    }
    block.bytes
  }

  private def checkStats(): Unit = {
    val stats = inlet.stats
    val table = inlet.routingTable
    unless(
      stats.startedLanes == lanes.size && stats.active.count(_ < scenario.maxLanes) <= lanes.size,
      "lanes"
    )
    unless(
      stats.active.filter(_ >= scenario.maxLanes).sameElements(slots.filter(_.owns).map(_.lane.value)),
      "remote lanes"
    )
    unless(
      stats.queueBytes.length >= lanes.size && stats.queueBytes.length > stats.routing.max &&
        stats.queueBytes.indices.forall(i => stats.queueBytes(i) == laneBytes(i)),
      "bytes queued"
    )
    unless(
      stats.inFlight == (0 until scenario.shards).count(table.handoffOf(_) != null),
      "handoffs in flight"
    )
    val received = ledger.offered.sum - ledger.committed.sum
    unless(stats.offered.sum == received, "rows by shard")
    unless(stats.laneRows.sum + stats.queueRows.sum == received, "rows by lane")
    if (!closing) (0 until scenario.shards).foreach { s =>
      unless(
        stats.active.contains(stats.destinations(s)) || table.handoffOf(s) != null,
        s"retired lane ${stats.destinations(s)} has shard $s"
      )
    }
  }
}

object Batch {
  val Receiver = 0
  val Emitter = 1
  val Control = 2
  val Failer = 3
  val Fates = 4
  private val Slots = 5

  private val LatestFailure = 150

  /** Far more than any batch needs. */
  private val MostSteps = 5000
}
