package laneshift.lane

import java.util.concurrent.locks.ReentrantLock

import scala.collection.mutable.ArrayBuffer

import laneshift.ids.{LaneId, ShardId}
import laneshift.routing.{Handoff, MoveReason, RoutingTable}

/** Receiver and lanes of one inlet on one thread, step by step: nothing is left to chance, and nothing ever waits. A lane's
  * steps are those of a real one (docs/handoff.md): it takes a block, works on it row by row, and between two rows gives up
  * the shards that are wanted elsewhere.
  */
final class InletDriver(
    val shards: Int = 4,
    lanes: Int = 2,
    val maxLanes: Int = 4,
    keys: Int = 8,
    blockRows: Int = 3,
    /** Each lane has worked on a row already. */
    warm: Boolean = true
) {
  val state = new KeyedState(keys, shards)
  val offered = new Array[Long](keys)
  val settled = ArrayBuffer.empty[Handoff]
  val started = ArrayBuffer.empty[Int]

  /** Lanes for which there is no thread. */
  var startsNot = Set.empty[Int]
  private var now = 0L
  private var lastId = 0L
  private var finished = false

  private val lock = new ReentrantLock

  val inlet = new Inlet[Item](
    InletLimits(maxLanes, queueBytes = 1L << 20),
    RoutingTable.roundRobin(shards, lanes),
    lanes,
    () => new ArrayBlock(blockRows),
    () => { lastId += 1; lastId },
    handoff => settled += handoff,
    lane =>
      if (startsNot(lane.value))
        throw new LaneNotStarted(s"no thread for lane ${lane.value}", new OutOfMemoryError)
      else started += lane.value,
    idleIsDone = true,
    () => { now += 1; now },
    lock
  )

  val lane: IndexedSeq[DriverLane] = IndexedSeq.tabulate(maxLanes)(new DriverLane(_))

  final class DriverLane(val index: Int) {
    private val id = LaneId(index)
    private var block: ArrayBlock = _
    private var at = 0
    var ended = false

    def queued: Long = { val rows = inlet.stats.queueRows; if (index < rows.length) rows(index) else 0L }
    def isRecalled: Boolean = inlet.isRecalled(id)
    def hasTaken: Boolean = {
      while (block != null && at < block.size && block.shardAt(at) < 0) at += 1
      block != null && at < block.size
    }

    /** Waits for rows, of which there are none. */
    def waits(): Unit = {
      lock.lock()
      try assert(inlet.tryTake(id, looksAgain = false) == null)
      finally lock.unlock()
    }

    /** Takes the next block if there is one. */
    def take(): Boolean = !hasTaken && !isRecalled && queued > 0 && {
      inlet.take(id) match {
        case Taken.Rows(rows) =>
          block = rows.asInstanceOf[ArrayBlock]
          at = 0
          true
        case other => throw new AssertionError(s"lane $index took $other, not rows")
      }
    }

    def process(): Boolean = hasTaken && {
      state.process(index, block.itemAt(at), block.shardAt(at))
      at += 1
      true
    }

    /** Gives up every shard that is recalled. */
    def letGo(): Boolean = isRecalled && {
      now += 1
      LetGo.all(inlet, id, block, at, now)
      true
    }

    /** One step of a lane's own loop: true if there was something to do. */
    def step(): Boolean = letGo() || process() || take()

    def end(): Unit = {
      while (step()) ()
      while (!ended)
        inlet.take(id) match {
          case Taken.End => ended = true
          // Blocks from which everything was taken back.
          case Taken.Rows(rows) => assert(rows.rows == 0, s"lane $index had rows left")
          case other => throw new AssertionError(s"lane $index took $other after the end")
        }
    }
  }

  def offer(key: Int, rows: Int = 1): Unit = (1 to rows).foreach { _ =>
    inlet.offer(Item(key, offered(key)), state.shardOf(key))
    offered(key) += 1
  }

  def move(shard: Int, to: Int): Handoff = inlet.move(ShardId(shard), LaneId(to), MoveReason.User) match {
    case Right(handoff) => handoff
    case Left(why) => throw new AssertionError(why)
  }

  if (warm) (0 until lanes).foreach { l =>
    offer((0 until keys).find(k => inlet.owner(state.shardOf(k)) == l).get)
    lane(l).take()
    lane(l).process()
  }

  /** Lanes go on until nobody has anything to do. */
  def drain(): Unit = while (lane.map(_.step()).contains(true)) ()

  /** Ends the input and checks that every row was processed, once and in order, and that nothing is left over. */
  def finish(): Unit = if (!finished) {
    finished = true
    drain()
    var fixed = Seq.empty[Int]
    inlet.finish { (routing, last) =>
      fixed = routing.toSeq
      assert(last == (0 until inlet.stats.startedLanes), "lanes that take part in the end")
    }
    (0 until inlet.stats.startedLanes).foreach(lane(_).end())
    state.check(offered)
    val stats = inlet.stats
    assert(fixed == stats.routing.toSeq, "the routing is final")
    assert(stats.inFlight == 0 && inlet.bufferedBytes == 0, "something is left over")
    assert(stats.queueRows.forall(_ == 0) && stats.queueBytes.forall(_ == 0), "queues are empty")
    assert(stats.laneRows.sum == offered.sum, s"lanes took ${stats.laneRows.sum} of ${offered.sum} rows")
    assert(stats.offered.sum == offered.sum, "rows received by shard")
  }
}

/** The steps of a handoff, each as a check that throws if the step is done wrong. By name, so that the planted bugs can say
  * which check must notice them.
  */
object HandoffChecks {

  /** There are as many lanes as could start; nothing goes to others, and nobody waits for their commit. */
  def unstartedLaneIsNotAwaited(): Unit = {
    val d = new InletDriver(shards = 4, lanes = 1)
    d.startsNot = Set(2)
    assert(d.inlet.setLanes(4) == Right(2), "lane 2 does not start, and so none behind it")
    assert(d.started.toSeq == Seq(1))
    val stats = d.inlet.stats
    assert(stats.activeLanes == 2 && stats.startedLanes == 2)
    assert(d.inlet.move(ShardId(0), LaneId(2), MoveReason.User).isLeft, "lane 2 is not there")
    d.offer(0, 3)
    var participants = Seq.empty[Int]
    d.inlet.finish((_, lanes) => participants = lanes)
    assert(participants == Seq(0, 1), "who commits")
  }

  /** Lane 1 has no rows of the first input; it is told all the same that the second begins, before rows of that. */
  def idleLanesMeetTheBoundary(): Unit = {
    val d = new InletDriver()
    d.offer(0, 2)
    d.inlet.nextInput()
    d.offer(1, 2)
    assert(
      d.inlet.take(LaneId(1)) == Taken.NextInput,
      "lane 1 takes rows of the second input for the first's"
    )
    assert(d.lane(1).take())
    assert(d.lane(0).take() && d.lane(0).process() && d.lane(0).process())
    assert(d.inlet.take(LaneId(0)) == Taken.NextInput)
    d.finish()
  }

  /** Shard 0 with rows queued at lane 0 moves; what is queued goes along. */
  def queuedRowsAreRecalled(): Unit = {
    val d = new InletDriver()
    d.offer(0, 5)
    d.offer(2, 2) // of lane 0 as well, of a shard that stays
    d.move(0, to = 1)
    assert(d.lane(0).letGo())
    assert(d.lane(0).queued == 2, s"lane 0 has ${d.lane(0).queued} rows queued, of which 2 are its own")
    assert(d.lane(1).queued == 5)
    d.offer(0, 2)
    d.finish()
  }

  /** Lane 0 is in the middle of a block when the shard is recalled: the rest of the block goes along, first. */
  def takenRowsGoAlong(): Unit = {
    val d = new InletDriver()
    d.offer(0, 7)
    d.lane(0).take()
    d.lane(0).process()
    d.move(0, to = 1)
    d.offer(0, 2)
    d.lane(0).letGo()
    assert(!d.lane(0).hasTaken, "lane 0 still has rows of the shard")
    d.finish()
  }

  /** Until lane 0 has let go, lane 1 gets nothing of the shard. */
  def rowsStayUntilTheSwitch(): Unit = {
    val d = new InletDriver()
    d.offer(0, 5)
    d.lane(0).take()
    d.move(0, to = 1)
    d.offer(0, 2)
    while (d.lane(1).step()) ()
    assert(d.lane(1).queued == 0, "rows go before their shard does")
    d.finish()
  }

  /** After the switch new rows go to the new owner. */
  def routingIsSwitched(): Unit = {
    val d = new InletDriver()
    d.move(0, to = 1)
    d.lane(0).letGo()
    assert(d.inlet.owner(0) == 1, "lane 0 still owns the shard")
    d.offer(0, 2)
    assert(d.lane(1).queued == 2 && d.lane(0).queued == 0)
    d.finish()
  }

  /** The input has not ended as long as a shard is on its way. */
  def endWaitsForHandoffs(): Unit = {
    val d = new InletDriver()
    d.offer(0, 4)
    d.move(0, to = 1)
    @volatile var ended = false
    val receiver = new Thread(() => d.inlet.finish((_, _) => ended = true))
    receiver.setDaemon(true)
    receiver.start()
    while (receiver.isAlive && receiver.getState != Thread.State.WAITING) Thread.sleep(1L)
    assert(!ended, "the input has ended while a shard is on its way")
    d.lane(0).letGo()
    receiver.join()
    assert(ended && d.inlet.owner(0) == 1)
    d.lane(0).end()
    d.lane(1).end()
    d.state.check(d.offered)
  }

  private def assert(right: Boolean, what: => String = "wrong rows"): Unit =
    if (!right) throw new AssertionError(what)
}
