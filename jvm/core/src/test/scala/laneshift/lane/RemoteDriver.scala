package laneshift.lane

import java.util.concurrent.locks.ReentrantLock

import scala.collection.mutable.ArrayBuffer

import laneshift.ids.{LaneId, ShardId}
import laneshift.routing.{Handoff, MoveReason, RoutingTable}

/** An inlet with two lanes here, 0 and 1, and two remote ones, 2 and 3, with both ends of their sessions, on one thread, step by
  * step. Key k is of shard k. Nothing is worked on: a host only goes through its rows.
  */
final class RemoteDriver(
    shards: Int = 4,
    queueBytes: Long = 1000L,
    windowBytes: Long = 1000L,
    readsAhead: Boolean = false
) {
  private val lock = new ReentrantLock
  private val next = new Array[Long](shards)
  val settled = ArrayBuffer.empty[Handoff]

  val inlet = new Inlet[Item](
    InletLimits(maxLanes = 2, queueBytes, remoteLanes = 2),
    RoutingTable.roundRobin(shards, 2),
    2,
    () => new ArrayBlock(3),
    () => 0L,
    handoff => settled += handoff,
    _ => (),
    idleIsDone = true,
    lock = lock
  )

  def offer(shard: Int, rows: Int = 1): Unit = (1 to rows).foreach { _ =>
    inlet.offer(Item(shard, next(shard)), shard)
    next(shard) += 1
  }

  def move(shard: Int, to: Int): Handoff =
    inlet.move(ShardId(shard), LaneId(to), MoveReason.User).fold(
      why => throw new AssertionError(why),
      identity
    )

  /** The rows of a lane's queue, as shard:number. */
  def queued(lane: Int): String = {
    val rows = ArrayBuffer.empty[String]
    inlet.queued(lane).forEach(block => rows += RemoteDriver.text(block))
    rows.filter(_.nonEmpty).mkString(" ")
  }

  /** A lane that is here gives up whatever is recalled. */
  def letGo(lane: Int): Unit = LetGo.all(inlet, LaneId(lane), null, 0, 0L)

  /** A lane that is here waits for rows, of which there are none. */
  def waits(lane: Int): Unit = locked(assert(inlet.tryTake(LaneId(lane), looksAgain = false) == null))

  private def locked[T](body: => T): T = {
    lock.lock()
    try body
    finally lock.unlock()
  }

  /** Whether a session could begin. */
  def mayJoin(slot: Int): Boolean =
    new HomeEnd[Item](inlet, LaneId(slot), windowBytes, readsAhead, null).join()

  /** A session that has just begun. */
  final class Session(slot: Int) extends HostWire[Item] {
    val lane: LaneId = LaneId(slot)
    val host = new HostEnd[Item](shards)
    val home = new HomeEnd[Item](inlet, lane, windowBytes, readsAhead, this)

    /** What home has told the host. */
    val told = ArrayBuffer.empty[String]

    override def rows(first: Long, block: RowBlock[Item]): Unit = {
      told += s"rows $first: ${RemoteDriver.text(block)}"
      host.add(first, block.asInstanceOf[ArrayBlock].sent)
    }
    override def nextInput(): Unit = {
      told += "next input"
      host.addBoundary()
    }
    override def arrived(shards: Seq[Int]): Unit = told += s"arrived ${shards.mkString(" ")}"
    override def recall(shards: Seq[Int], upTo: Long): Unit = {
      told += s"recall ${shards.mkString(" ")} up to $upTo"
      host.recalled(shards, upTo)
    }
    override def end(): Unit = told += "end"

    assert(home.join())

    /** Home does what is next; false if it has to wait. */
    def turn(): Boolean = {
      val taken = locked(home.tryTake(looksAgain = false))
      if (taken != null) home.handle(taken)
      taken != null
    }

    def turns(): this.type = {
      var left = 100
      while (left > 0 && turn()) left -= 1
      assert(left > 0, s"home never waits: ${told.takeRight(3)}")
      this
    }

    /** The host goes through so many rows, as shard:number. */
    def work(rows: Int): String = (1 to rows).flatMap { _ =>
      if (!host.advance()) None
      else {
        val item = host.current.asInstanceOf[ArrayBlock].itemAt(host.index)
        assert(item.key == host.shard)
        Some(s"${item.key}:${item.seq}")
      }
    }.mkString(" ")

    /** A frame of all that the host has gone through. */
    def frame(answers: Boolean = false): Unit = home.covered(host.position, answers)
  }
}

object RemoteDriver {

  private def text(block: RowBlock[Item]): String = {
    val rows = block.asInstanceOf[ArrayBlock]
    (0 until rows.size).filter(rows.shardAt(_) >= 0).map(i =>
      s"${rows.itemAt(i).key}:${rows.itemAt(i).seq}"
    ).mkString(" ")
  }
}
