package laneshift.lane

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.{AtomicLong, AtomicReference}

import scala.jdk.CollectionConverters._
import scala.util.Random

import laneshift.ids.{LaneId, ShardId}
import laneshift.routing.{MoveReason, RoutingTable}

/** What a stress run does. Sizes in rows or bytes of rows; a row has 10 bytes and more. */
final case class StressPlan(
    seed: Long,
    rows: Int = 60000,
    keys: Int = 64,
    shards: Int = 16,
    lanes: Int = 2,
    maxLanes: Int = 5,
    blockRows: Int = 7,
    queueBytes: Long = 400,
    outletBytes: Long = 300,
    /** The row at which the lane that has it throws, or -1. */
    failAt: Int = -1,
    /** Lets the receiver end without saying so at this row, as a failed shuffle fetch does, or -1. */
    receiverFailsAt: Int = -1
)

final case class StressResult(settled: Long, laneChanges: Long, failure: Option[Throwable])

/** Receiver, lanes, emitter and two troublemakers as threads around one inlet and one outlet, with tiny bounds. Lanes check
  * what they get as they get it, the emitter what comes out. Throws whatever anybody found wrong.
  */
final class InletStress(plan: StressPlan) {
  private val state = new KeyedState(plan.keys, plan.shards)
  private val counts = new Array[Long](plan.keys)
  private val emitted = new Array[Long](plan.keys)
  private val threads = new ConcurrentLinkedQueue[Thread]
  private val errors = new ConcurrentLinkedQueue[Throwable]
  private val (settled, changes, ids) = (new AtomicLong, new AtomicLong, new AtomicLong)
  private val stopped = new AtomicReference[Throwable]
  @volatile private var over = false

  private val newBlock = () => new ArrayBlock(plan.blockRows)
  private val outlet = new Outlet[Item](plan.outletBytes, newBlock)
  private val inlet = new Inlet[Item](
    InletLimits(plan.maxLanes, plan.queueBytes),
    RoutingTable.roundRobin(plan.shards, plan.lanes),
    plan.lanes,
    newBlock,
    () => ids.incrementAndGet(),
    _ => settled.incrementAndGet(),
    startLane,
    idleIsDone = plan.seed % 2 == 0
  )

  private def start(role: String)(work: => Unit): Unit = {
    val thread = new Thread(
      () =>
        try work
        catch {
          case _: PartitionStopped if stopped.get != null => ()
          case e: Throwable => fail(e)
        },
      s"stress $role"
    )
    thread.setDaemon(true)
    threads.add(thread)
    thread.start()
  }

  private def fail(e: Throwable): Unit = {
    if (!e.isInstanceOf[InletStress.Planned]) errors.add(e)
    stopped.compareAndSet(null, e)
    inlet.fail(e)
    outlet.fail(e)
  }

  private def startLane(lane: LaneId): Unit = {
    outlet.addProducer()
    start(s"lane ${lane.value}")(runLane(lane))
  }

  private def runLane(lane: LaneId): Unit = {
    val random = new Random(plan.seed * 31 + lane.value)
    var out = newBlock()
    def flush(): Unit = if (out.size > 0) { outlet.put(out); out = newBlock() }
    var running = true
    while (running) {
      inlet.take(lane) match {
        case Taken.End => running = false
        case Taken.Recall => letGo(lane, null, 0)
        case Taken.NextInput => throw new AssertionError("there is one input")
        case Taken.Rows(rows) =>
          val block = rows.asInstanceOf[ArrayBlock]
          var i = 0
          while (i < block.size) {
            if (inlet.isRecalled(lane)) letGo(lane, block, i)
            if (block.shardAt(i) >= 0) {
              val item = block.itemAt(i)
              if (item.bytes == InletStress.Poison) throw new InletStress.Planned
              state.process(lane.value, item, block.shardAt(i))
              out.append(item, block.shardAt(i))
              if (out.isFull) flush()
              if (random.nextInt(500) == 0) Thread.`yield`()
            }
            i += 1
          }
      }
      flush()
    }
    outlet.producerDone()

    def letGo(lane: LaneId, block: ArrayBlock, at: Int): Unit = {
      val noticed = System.nanoTime()
      flush()
      LetGo.all(inlet, lane, block, at, noticed)
    }
  }

  private def receive(): Unit = {
    val random = new Random(plan.seed)
    var i = 0
    while (i < plan.rows) {
      if (i == plan.receiverFailsAt) throw new InletStress.Planned
      // Skewed; a few rows are larger than a whole queue.
      val key = (plan.keys * math.pow(random.nextDouble(), 2)).toInt
      val bytes =
        if (i == plan.failAt) InletStress.Poison
        else if (random.nextInt(1000) == 0) plan.queueBytes * 2
        else 10L + random.nextInt(20)
      inlet.offer(Item(key, counts(key), bytes), state.shardOf(key))
      counts(key) += 1
      i += 1
    }
    inlet.finish((routing, lanes) => assert(routing.forall(lanes.contains)))
  }

  private def makeTrouble(salt: Int): Unit = {
    val random = new Random(plan.seed * 17 + salt)
    while (!over && stopped.get == null) {
      random.nextInt(12) match {
        case 0 =>
          if (inlet.setLanes(1 + random.nextInt(plan.maxLanes)).isRight) changes.incrementAndGet()
        case 1 =>
          val stats = inlet.stats
          assert(stats.queueBytes.sum <= bound, s"more than $bound bytes are buffered")
          Thread.sleep(0, 20000)
        case _ =>
          val (shard, lane) = (ShardId(random.nextInt(plan.shards)), LaneId(random.nextInt(plan.maxLanes)))
          inlet.move(shard, lane, MoveReason.Motion)
      }
      if (random.nextInt(4) == 0) Thread.`yield`()
    }
  }

  /** What InletLimits promises, and a block per lane that it had taken and gave back. */
  private def bound: Long = {
    val row = math.max(30L, plan.queueBytes * 2)
    InletLimits(plan.maxLanes, plan.queueBytes).totalBytes + row + plan.maxLanes * plan.blockRows * row
  }

  def run(): StressResult = {
    (0 until plan.lanes).foreach(i => startLane(LaneId(i)))
    start("receiver")(receive())
    (0 to 1).foreach(i => start(s"trouble $i")(makeTrouble(i)))
    val failure =
      try {
        var block = outlet.take(50L, () => ())
        while (block.nonEmpty) {
          val rows = block.get.asInstanceOf[ArrayBlock]
          (0 until rows.size).map(rows.itemAt).foreach { item =>
            if (item.seq != emitted(item.key)) throw new AssertionError(
              s"row ${item.seq} of key ${item.key} comes out where ${emitted(item.key)} is due"
            )
            emitted(item.key) += 1
          }
          block = outlet.take(50L, () => ())
        }
        None
      } catch {
        case e: Throwable =>
          fail(e)
          Some(e)
      }
    over = true
    val deadline = System.nanoTime() + InletStress.PatienceNs
    threads.asScala.foreach(t => t.join(math.max(1L, (deadline - System.nanoTime()) / 1000000L)))
    val stuck = threads.asScala.filter(_.isAlive).map { t =>
      t.getStackTrace.take(6).mkString(s"${t.getName}\n  at ", "\n  at ", "")
    }
    if (stuck.nonEmpty) throw new AssertionError(s"threads did not end:\n${stuck.mkString("\n")}")
    errors.asScala.headOption.foreach(e => throw e)
    if (failure.isEmpty) {
      state.check(counts)
      counts.indices.foreach(k =>
        if (emitted(k) != counts(k))
          throw new AssertionError(s"${emitted(k)} of ${counts(k)} rows of key $k came out")
      )
      val stats = inlet.stats
      if (inlet.bufferedBytes != 0 || stats.inFlight != 0)
        throw new AssertionError(s"left over: ${inlet.bufferedBytes} bytes, ${stats.inFlight} handoffs")
    }
    StressResult(settled.get, changes.get, failure)
  }

  private def assert(right: Boolean, what: => String = "wrong"): Unit =
    if (!right) throw new AssertionError(what)
}

object InletStress {

  /** A failure that the plan asked for. */
  final class Planned extends RuntimeException("planned failure")

  private val Poison = 1L
  private val PatienceNs = 120L * 1000000000L
}
