package laneshift.lane

import java.util.concurrent.atomic.AtomicReference

import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Seconds, Span}

import laneshift.ids.{LaneId, ShardId}
import laneshift.routing.MoveReason
import laneshift.testing.LimitedSuite

/** The inlet's protocol, one step after the other on one thread; what waits does so on a thread of its own. */
class InletStepsSuite extends LimitedSuite with Eventually {
  implicit override val patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds), Span(5, Millis))

  test("handoff: queued rows go along")(HandoffChecks.queuedRowsAreRecalled())
  test("handoff: rows taken but not processed go along")(HandoffChecks.takenRowsGoAlong())
  test("handoff: rows stay until the source has let go")(HandoffChecks.rowsStayUntilTheSwitch())
  test("handoff: the routing is switched")(HandoffChecks.routingIsSwitched())
  test("lanes: one that cannot start is not waited for")(HandoffChecks.unstartedLaneIsNotAwaited())
  test("inputs: idle lanes meet the boundary")(HandoffChecks.idleLanesMeetTheBoundary())
  test("handoff: the end of the input waits for it")(HandoffChecks.endWaitsForHandoffs())

  test("a handoff tells its times and the rows that went along") {
    val d = new InletDriver()
    d.offer(0, 4)
    d.lane(0).take() // 3 of the 4
    d.lane(0).process()
    val handoff = d.move(0, to = 1)
    d.offer(0, 2)
    d.lane(0).letGo()
    assert(d.settled.toSeq == Seq(handoff))
    assert(handoff.movedRows == 2 + 1 + 2)
    val times = Seq(handoff.begunNs, handoff.noticedNs, handoff.flushedNs, handoff.settledNs)
    assert(times == times.sorted && times.distinct.size == 4)
    d.finish()
  }

  test("a lane that waits for its first row needs not notice that a shard goes") {
    val d = new InletDriver(warm = false)
    d.lane(0).waits()
    d.offer(0, 5)
    val handoff = d.move(0, to = 1)
    assert(!d.lane(0).isRecalled && d.lane(0).queued == 0 && d.lane(1).queued == 5 && d.inlet.owner(0) == 1)
    assert(d.settled.toSeq == Seq(handoff) && handoff.movedRows == 5 && handoff.drainNs == 0)
    d.offer(0, 2)
    d.lane(1).take()
    d.move(0, to = 0)
    assert(d.lane(1).isRecalled && d.inlet.owner(0) == 1)
    d.finish()
  }

  test("a lane that does not wait yet may be at its timers: it lets shards go itself") {
    val d = new InletDriver(warm = false)
    d.offer(0, 5)
    d.move(0, to = 1)
    assert(d.lane(0).isRecalled && d.inlet.owner(0) == 0 && d.settled.isEmpty)
    assert(d.lane(0).letGo() && d.inlet.owner(0) == 1 && d.lane(1).queued == 5)
    d.finish()
  }

  test("lanes that are retired while they wait for their first row go at once") {
    val d = new InletDriver(lanes = 3, warm = false)
    d.lane.take(3).foreach(_.waits())
    (0 until 8).foreach(d.offer(_, 2))
    assert(d.inlet.setLanes(1) == Right(1))
    assert(d.inlet.stats.routing.toSeq == Seq(0, 0, 0, 0) && d.lane(0).queued == 16 && d.settled.size == 2)
    d.finish()
  }

  test("other shards of both lanes go on while a shard is on its way") {
    val d = new InletDriver()
    d.move(0, to = 1)
    d.offer(0, 3)
    d.offer(1, 2)
    d.offer(2, 2)
    assert(d.lane(1).step() && d.lane(1).step())
    assert(d.lane(0).queued == 5 && !d.lane(1).isRecalled)
    d.finish()
  }

  test("a shard goes round all lanes and comes back") {
    val d = new InletDriver(lanes = 3)
    for (to <- Seq(1, 2, 0, 2, 1, 0)) {
      d.offer(0, 5)
      d.lane(d.inlet.owner(0)).take()
      d.lane(d.inlet.owner(0)).process()
      d.move(0, to)
      d.offer(0, 4)
      d.lane.foreach(_.letGo())
    }
    d.finish()
    assert(d.settled.size == 6)
  }

  test("several shards are on their way at once, each on its own") {
    val d = new InletDriver(shards = 8, keys = 16)
    (0 until 16).foreach(d.offer(_, 3))
    d.lane(0).take()
    Seq(0, 2, 4).foreach(d.move(_, to = 1))
    Seq(1, 3).foreach(d.move(_, to = 0))
    assert(d.inlet.stats.inFlight == 5)
    (0 until 16).foreach(d.offer(_, 2))
    d.finish()
    assert(d.inlet.stats.routing.toSeq == Seq(1, 0, 1, 0, 1, 1, 0, 1))
  }

  test("moves that cannot be say why") {
    val d = new InletDriver()
    def why(shard: Int, to: Int): String =
      d.inlet.move(ShardId(shard), LaneId(to), MoveReason.User).left.getOrElse("it moved")
    assert(why(0, 0) == "shard 0 is on lane 0 already")
    assert(why(0, 2) == "lane 2 is not one of the lanes, which are 0, 1")
    d.move(0, to = 1)
    assert(why(0, 1).contains("is under way"))
    d.finish()
    assert(why(1, 0) == "the batch is ending")
    assert(d.inlet.setLanes(3) == Left("the batch is ending"))
  }

  test("new lanes start once, in order, and own nothing until shards are moved") {
    val d = new InletDriver(shards = 6)
    assert(d.inlet.setLanes(4) == Right(4))
    assert(d.started.toSeq == Seq(2, 3))
    assert(d.inlet.stats.routing.toSet == Set(0, 1))
    d.inlet.setLanes(2)
    d.inlet.setLanes(3)
    assert(d.started.toSeq == Seq(2, 3))
    d.move(0, to = 2)
    d.offer(0, 3)
    d.finish()
    assert(d.inlet.stats.startedLanes == 4 && d.inlet.stats.activeLanes == 3)
  }

  test("a lane that could not start does once it can") {
    val d = new InletDriver(shards = 4, lanes = 1)
    d.startsNot = Set(1)
    assert(d.inlet.setLanes(3) == Right(1) && d.inlet.stats.startedLanes == 1)
    d.startsNot = Set.empty
    assert(d.inlet.setLanes(3) == Right(3) && d.started.toSeq == Seq(1, 2))
  }

  test("retired lanes hand their shards to those that own the fewest") {
    val d = new InletDriver(shards = 9, lanes = 3, keys = 9)
    (0 until 9).foreach(d.offer(_, 4))
    d.lane.foreach(_.take())
    d.inlet.setLanes(2)
    assert(d.inlet.stats.destinations.groupBy(identity).map { case (l, s) => l -> s.length } == Map(
      0 -> 5,
      1 -> 4
    ))
    (0 until 9).foreach(d.offer(_, 2))
    d.finish()
    assert(d.settled.forall(_.reason == MoveReason.Scale) && d.settled.size == 3)
  }

  test("a shard on its way to a lane that is retired meanwhile goes on to another") {
    val d = new InletDriver(lanes = 3, shards = 3)
    d.offer(0, 4)
    d.lane(0).take()
    d.move(0, to = 2)
    d.inlet.setLanes(2)
    d.offer(0, 4)
    d.finish()
    assert(d.inlet.stats.routing.forall(_ < 2))
    assert(d.settled.count(_.shard.value == 0) == 2)
  }

  test("a number of lanes out of range is refused") {
    val d = new InletDriver()
    Seq(0, 5, -1).foreach { n =>
      assert(intercept[IllegalArgumentException](d.inlet.setLanes(n)).getMessage.contains(s"1..4, not $n"))
    }
  }

  // ---- what waits

  private final class Waiting(work: => Unit) {
    val error = new AtomicReference[Throwable]
    val thread = new Thread(() =>
      try work
      catch { case e: Throwable => error.set(e) }
    )
    thread.setDaemon(true)
    thread.start()

    /** Waits for a condition: without a time limit, unlike the short pauses of an idle lane. */
    def assertWaiting(): Unit = eventually(assert(thread.getState == Thread.State.WAITING))

    def end(): Throwable = {
      thread.join(60000L)
      assert(!thread.isAlive)
      error.get
    }
  }

  /** Two lanes with one shard each, both of which have worked on a row. */
  private def small(idleIsDone: Boolean = false): Inlet[Item] = {
    val inlet = new Inlet[Item](
      InletLimits(maxLanes = 2, queueBytes = 30),
      Array(0, 1),
      2,
      () => new ArrayBlock(2),
      () => 0L,
      _ => (),
      _ => (),
      idleIsDone
    )
    Seq(0, 1).foreach { i =>
      inlet.offer(Item(i, 0L), i)
      inlet.take(LaneId(i))
    }
    inlet
  }

  private def offer(inlet: Inlet[Item], shard: Int, rows: Range): Unit =
    rows.foreach(i => inlet.offer(Item(shard, i.toLong), shard))

  test("a full queue stops the receiver, whoever else has room, until its lane takes rows") {
    val inlet = small()
    val receiver = new Waiting(offer(inlet, 0, 0 until 4))
    receiver.assertWaiting()
    assert(inlet.bufferedBytes == 30)
    inlet.take(LaneId(0))
    assert(receiver.end() == null && inlet.bufferedBytes == 20)
  }

  test("a shard that goes takes its rows from a full queue to one that is full then") {
    val inlet = small()
    inlet.move(ShardId(0), LaneId(1), MoveReason.User)
    val receiver = new Waiting(offer(inlet, 0, 0 until 4))
    receiver.assertWaiting()
    LetGo.all(inlet, LaneId(0), null, 0, 0L)
    receiver.assertWaiting()
    assert(inlet.stats.queueRows.toSeq == Seq(0, 3))
    inlet.take(LaneId(1))
    assert(receiver.end() == null && inlet.stats.queueRows.toSeq == Seq(0, 2))
  }

  test("the end of the input waits for handoffs in flight and is told before any lane sees it") {
    val inlet = small()
    inlet.move(ShardId(0), LaneId(1), MoveReason.User)
    val told = new AtomicReference[(Seq[Int], Seq[Int])]
    val lane1 = new Waiting({
      assert(inlet.take(LaneId(1)) == Taken.End)
      assert(told.get == ((Seq(1, 1), Seq(0, 1))))
    })
    val receiver = new Waiting(inlet.finish((routing, lanes) => told.set((routing.toSeq, lanes))))
    receiver.assertWaiting()
    lane1.assertWaiting()
    assert(told.get == null)
    assert(inlet.take(LaneId(0)) == Taken.Recall)
    LetGo.all(inlet, LaneId(0), null, 0, 0L)
    assert(receiver.end() == null && lane1.end() == null)
    assert(inlet.take(LaneId(0)) == Taken.End)
  }

  test("a recall wakes an idle lane, and so does a row") {
    val inlet = small()
    val lane0 = new Waiting(assert(inlet.take(LaneId(0)) == Taken.Recall))
    lane0.assertWaiting()
    val lane1 = new Waiting(assert(inlet.take(LaneId(1)).isInstanceOf[Taken.Rows[_]]))
    lane1.assertWaiting()
    inlet.move(ShardId(0), LaneId(1), MoveReason.User)
    assert(lane0.end() == null)
    inlet.offer(Item(1, 0), 1)
    assert(lane1.end() == null)
  }

  test("a shard leaves an idle lane without it, if that has nothing unfinished") {
    val inlet = small(idleIsDone = true)
    val lane0 = new Waiting(assert(inlet.take(LaneId(0)) == Taken.End))
    lane0.assertWaiting()
    val handoff = inlet.move(ShardId(0), LaneId(1), MoveReason.User).toOption.get
    assert(inlet.owner(0) == 1 && handoff.drainNs == 0 && !inlet.isRecalled(LaneId(0)))
    inlet.offer(Item(0, 1L), 0)
    assert(inlet.take(LaneId(1)).isInstanceOf[Taken.Rows[_]])
    // Lane 1 is at the row: its shard waits for it.
    inlet.move(ShardId(0), LaneId(0), MoveReason.User)
    assert(inlet.owner(0) == 1 && inlet.isRecalled(LaneId(1)))
    LetGo.all(inlet, LaneId(1), null, 0, 0L)
    inlet.finish((_, _) => ())
    assert(lane0.end() == null)
  }

  test("a failure wakes everybody with its cause, and nobody can go on") {
    val inlet = small()
    inlet.move(ShardId(0), LaneId(1), MoveReason.User)
    val waiting = Seq(
      new Waiting(offer(inlet, 0, 0 until 9)),
      new Waiting(inlet.take(LaneId(1)))
    )
    waiting.foreach(_.assertWaiting())
    val cause = new IllegalStateException("boom")
    inlet.fail(cause)
    inlet.fail(new IllegalStateException("later"))
    waiting.foreach { w =>
      val error = w.end()
      assert(error.isInstanceOf[PartitionStopped] && error.getCause == cause)
    }
    Seq[() => Unit](
      () => inlet.take(LaneId(0)),
      () => offer(inlet, 1, 0 until 1),
      () => inlet.finish((_, _) => fail("the end was reached")),
      () => LetGo.all(inlet, LaneId(0), null, 0, 0L)
    ).foreach(call => assert(intercept[PartitionStopped](call()).getCause == cause))
    assert(inlet.setLanes(1).isLeft)
    assert(inlet.move(ShardId(1), LaneId(0), MoveReason.User).isLeft)
  }

  test("the end's wait is woken by a failure too") {
    val inlet = small()
    inlet.move(ShardId(0), LaneId(1), MoveReason.User)
    val receiver = new Waiting(inlet.finish((_, _) => ()))
    receiver.assertWaiting()
    inlet.fail(new IllegalStateException("boom"))
    assert(receiver.end().isInstanceOf[PartitionStopped])
  }

  test("interrupts end waits, and leave the inlet usable") {
    val inlet = small()
    val lane = new Waiting(inlet.take(LaneId(0)))
    lane.assertWaiting()
    lane.thread.interrupt()
    assert(lane.end().isInstanceOf[InterruptedException])
    val receiver = new Waiting(offer(inlet, 0, 0 until 9))
    receiver.assertWaiting()
    receiver.thread.interrupt()
    assert(receiver.end().isInstanceOf[InterruptedException])
    assert(inlet.take(LaneId(0)).isInstanceOf[Taken.Rows[_]])
    inlet.offer(Item(1, 0), 1)
  }
}
