package laneshift.lane

import java.util.concurrent.ThreadLocalRandom
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}
import java.util.concurrent.locks.ReentrantLock

import scala.collection.immutable.SortedMap
import scala.collection.mutable

import laneshift.ids.{Epoch, LaneId, ShardId}
import laneshift.routing.MoveReason

/** The tightest race of the protocol on real threads, after the manner of jcstress: the receiver offers rows of the one shard
  * while somebody recalls it from lane 0, looking at routing, epoch and queues before and after, and both lanes work. Lane 0
  * has worked on row 0 when the race begins.
  */
final class InletRace(idleIsDone: Boolean) {
  import InletRace.{Roles, Rows}

  private val lock = new ReentrantLock
  private val inlet = new Inlet[Item](
    InletLimits(maxLanes = 2, queueBytes = 1000),
    Array(0),
    2,
    () => new ArrayBlock(2),
    () => 0L,
    _ => (),
    _ => (),
    idleIsDone,
    lock = lock
  )
  private val lanes = Array.tabulate(2)(new Worker(_))

  /** The row that is due; plain on purpose, as an operator's state: to see the other lane's writes is the handoff's task. */
  private var due = 0L
  private var seen = Epoch.first

  inlet.offer(Item(0, 0L), 0)
  lanes(0).step()
  lanes(0).step()

  private final class Worker(index: Int) {
    private val id = LaneId(index)
    private var block: ArrayBlock = _
    private var at = 0
    var worked = 0

    def step(): Unit =
      if (inlet.isRecalled(id)) LetGo.all(inlet, id, block, at, System.nanoTime())
      else if (block != null && at < block.size) {
        if (block.shardAt(at) >= 0) {
          val row = block.itemAt(at)
          require(row.seq == due, s"lane $index got row ${row.seq}, not $due")
          due = row.seq + 1
          worked += 1
        }
        at += 1
      } else take()

    private def take(): Unit = {
      lock.lock()
      try inlet.tryTake(id, looksAgain = false) match {
          case Taken.Rows(rows) =>
            block = rows.asInstanceOf[ArrayBlock]
            at = 0
          case _ => ()
        }
      finally lock.unlock()
    }
  }

  private val arrived = new AtomicInteger

  /** What each thread does: it waits for the others, then takes its steps, now and then letting others in between. */
  def run(role: Int): Unit = {
    arrived.incrementAndGet()
    while (arrived.get < Roles) Thread.`yield`()
    role match {
      case 0 => steps(Rows)(i => inlet.offer(Item(0, i.toLong), 0))
      case 1 => steps(3)(i => if (i == 2) recall() else look())
      case _ => steps(2 * Rows)(_ => lanes(role - 2).step())
    }
  }

  private def steps(count: Int)(step: Int => Unit): Unit = (1 to count).foreach { i =>
    if (ThreadLocalRandom.current.nextInt(3) == 0) Thread.`yield`()
    step(i)
  }

  private def recall(): Unit = require(inlet.move(ShardId(0), LaneId(1), MoveReason.User).isRight, "no move")

  /** Routing, epoch and queues change together, and never back. */
  private def look(): Unit = {
    lock.lock()
    try {
      val table = inlet.routingTable
      require(table.epoch.value >= seen.value, s"epoch ${table.epoch.value} follows ${seen.value}")
      seen = table.epoch
      require(table.owner(0) == table.epoch.value, s"lane ${table.owner(0)} owns the shard in ${table.epoch}")
      lanes.indices.foreach { lane =>
        val mine = table.owner(0) == lane
        inlet.queued(lane).forEach(b => require(b.rows == 0 || mine, s"rows at lane $lane in ${table.epoch}"))
      }
    } finally lock.unlock()
  }

  /** Ends the race and judges it: how many rows lane 0 had worked on, and whether the handoff had settled. */
  def outcome(): String = {
    val settled = inlet.owner(0) == 1
    (1 to 4 * Rows).foreach(_ => lanes.foreach(_.step()))
    look()
    require(inlet.owner(0) == 1, "the shard has not moved")
    require(due == Rows + 1, s"$due of ${Rows + 1} rows were worked on")
    require(inlet.bufferedBytes == 0, "something is left over")
    s"${lanes(0).worked - 1} rows before, ${if (settled) "settled" else "in flight"}"
  }

  private def require(right: Boolean, what: => String): Unit = if (!right) throw new AssertionError(what)
}

object InletRace {
  private val Rows = 4

  /** Receiver, whoever recalls and observes, two lanes. */
  private val Roles = 4

  /** Races that one set of threads runs. */
  private val AtOnce = 1000

  /** Runs so many thousand races and counts their outcomes; throws if one is wrong. */
  def outcomes(thousands: Int): SortedMap[String, Int] = {
    val counts = mutable.SortedMap.empty[String, Int].withDefaultValue(0)
    (1 to thousands).foreach { _ =>
      val races = Array.tabulate(AtOnce)(i => new InletRace(idleIsDone = i % 2 == 0))
      runAll(races)
      races.foreach(race => counts(race.outcome()) += 1)
    }
    SortedMap.from(counts)
  }

  private def runAll(races: Array[InletRace]): Unit = {
    val error = new AtomicReference[Throwable]
    val threads = (0 until Roles).map { role =>
      // A thread goes on after a race that broke: the others wait for it at the next.
      new Thread(() =>
        races.foreach { race =>
          try race.run(role)
          catch { case e: Throwable => error.compareAndSet(null, e) }
        }
      )
    }
    threads.foreach(_.start())
    threads.foreach(_.join())
    if (error.get != null) throw error.get
  }

  /** A part of `make prove`. */
  def main(args: Array[String]): Unit = {
    val thousands = args.headOption.fold(300)(_.toInt)
    println(f"Racing ${thousands * AtOnce}%,d times on real threads")
    val start = System.nanoTime()
    outcomes(thousands).foreach { case (what, times) => println(f"$times%,12d $what") }
    println(f"No violation in ${(System.nanoTime() - start) / 1e9}%.0f s")
  }
}
