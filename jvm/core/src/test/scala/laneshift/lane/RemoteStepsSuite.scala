package laneshift.lane

import java.util.concurrent.atomic.AtomicReference

import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Seconds, Span}

import laneshift.ids.{LaneId, ShardId}
import laneshift.routing.MoveReason
import laneshift.testing.LimitedSuite

/** What the inlet and both ends of a session do for lanes on other executors, one step after the other. */
class RemoteStepsSuite extends LimitedSuite with Eventually {
  implicit override val patienceConfig: PatienceConfig = PatienceConfig(Span(60, Seconds), Span(5, Millis))

  /** Shards 0 and 2 are lane 2's, and its host was told. */
  private def withTwoShards(d: RemoteDriver): d.Session = {
    val s = new d.Session(2)
    Seq(0, 2).foreach(d.move(_, to = 2))
    d.letGo(0)
    s.turns()
    assert(s.told.toSeq == Seq("arrived 0 2"))
    s.told.clear()
    s
  }

  // ---- to a remote lane and back

  test("a shard goes to a remote lane only through its lane here: what that keeps of it has to be written") {
    val d = new RemoteDriver()
    new d.Session(2)
    d.waits(0)
    d.waits(1)
    d.move(1, to = 0)
    assert(d.inlet.owner(1) == 0, "between lanes that are here, an idle lane is not asked")
    d.move(0, to = 2)
    assert(d.inlet.owner(0) == 0 && d.inlet.isRecalled(LaneId(0)))
    d.move(2, to = 1)
    assert(d.inlet.recalls(LaneId(0)) == Seq(Recalled(0, leaves = true)))
    d.letGo(0)
    assert(d.inlet.owner(0) == 2 && d.inlet.owner(2) == 1)
  }

  test("only the shards that were written go: others are seen at the next look") {
    val d = new RemoteDriver()
    new d.Session(2)
    d.move(0, to = 2)
    val seen = d.inlet.recalls(LaneId(0)).map(_.shard)
    d.move(2, to = 2)
    d.inlet.letGo(LaneId(0), Nil, 0L, seen)
    assert(d.inlet.owner(0) == 2 && d.inlet.owner(2) == 0 && d.inlet.isRecalled(LaneId(0)))
    d.letGo(0)
    assert(d.inlet.owner(2) == 2 && !d.inlet.isRecalled(LaneId(0)))
  }

  test("a host is told that a shard comes before its first row, also of one that it had") {
    val d = new RemoteDriver()
    val s = new d.Session(2)
    d.offer(0, 2)
    d.move(0, to = 2)
    d.letGo(0)
    s.turns()
    assert(s.work(9) == "0:0 0:1")
    s.frame()
    s.turns()
    d.move(0, to = 1)
    assert(d.inlet.owner(0) == 1, "nothing is unfinished: nobody is asked")
    d.move(0, to = 2)
    d.letGo(1)
    d.offer(0)
    s.turns()
    assert(s.told.toSeq == Seq("arrived 0", "rows 1: 0:0 0:1", "arrived 0", "rows 3: 0:2"))
    assert(s.work(9) == "0:2")
  }

  test("a shard that comes home: the rows that no frame covers go first, then the queue") {
    val d = new RemoteDriver()
    val s = withTwoShards(d)
    d.offer(0, 2)
    d.offer(2, 2)
    d.offer(0, 1)
    s.turns()
    assert(s.work(1) == "0:0")
    d.move(0, to = 0)
    d.offer(0, 2)
    s.turns()
    assert(s.told.last == "recall 0 up to 5" && d.inlet.owner(0) == 2 && d.queued(2) == "0:3 0:4")
    s.frame(answers = true)
    assert(d.inlet.owner(0) == 0 && d.queued(0) == "0:1 0:2 0:3 0:4")
    assert(s.work(9) == "2:0 2:1", "what is recalled is not worked on")
    s.frame()
    assert(s.home.keptBytes == 0)
    d.move(0, to = 2)
    d.offer(0)
    d.letGo(0)
    s.turns()
    assert(s.work(9) == "0:1 0:2 0:3 0:4 0:5", "rows behind the recall are its own again")
  }

  test("no rows are sent, and no second recall, until the host has answered") {
    val d = new RemoteDriver()
    val s = withTwoShards(d)
    d.offer(0)
    s.turns()
    d.move(0, to = 1)
    s.turns()
    d.offer(2)
    d.move(2, to = 1)
    s.work(1)
    s.frame()
    s.turns()
    assert(s.told.toSeq == Seq("rows 1: 0:0", "recall 0 up to 1") && d.inlet.owner(0) == 2)
    s.frame(answers = true)
    assert(d.inlet.owner(0) == 1 && d.inlet.owner(2) == 2)
    s.turns()
    assert(d.inlet.owner(2) == 1 && d.queued(1) == "2:0", "the host has nothing: it is not asked again")
    assert(s.told.size == 2)
  }

  test("an answer to nothing is refused") {
    val d = new RemoteDriver()
    val s = withTwoShards(d)
    intercept[IllegalArgumentException](s.frame(answers = true))
  }

  test("a host that may hold rows is asked although its frames cover all") {
    val d = new RemoteDriver(readsAhead = true)
    val s = withTwoShards(d)
    d.offer(0)
    s.turns()
    s.work(1)
    s.frame()
    s.turns()
    d.move(0, to = 1)
    s.turns()
    assert(d.inlet.owner(0) == 2 && s.told.last == "recall 0 up to 1")
    s.frame(answers = true)
    assert(d.inlet.owner(0) == 1)
    d.move(2, to = 1)
    s.turns()
    assert(d.inlet.owner(2) == 2, "its operators have restarted, and may be at their timers")
    s.frame(answers = true)
    assert(d.inlet.owner(2) == 1)
  }

  // ---- release and end

  test(
    "a lane that is released hands its shards away, with the rows that it had not done, and gets its end, once"
  ) {
    val d = new RemoteDriver()
    val s = withTwoShards(d)
    d.offer(0, 2)
    d.offer(2, 2)
    s.turns()
    s.work(1)
    s.home.release()
    s.home.release()
    assert(d.inlet.move(ShardId(1), LaneId(2), MoveReason.User).isLeft)
    s.turns()
    assert(s.told.last == "recall 0 2 up to 4")
    s.frame(answers = true)
    assert(s.work(9) == "" && s.host.position == 4)
    s.turns()
    assert(!s.home.isOver, "places of rows that went are not covered yet")
    s.frame()
    s.turns()
    assert(s.home.isOver && s.told.count(_ == "end") == 1)
    assert(Seq(0, 2).forall(d.inlet.owner(_) < 2))
    s.home.leave()
    assert(d.mayJoin(2))
  }

  test("a host that may hold rows gets its end although all that it was sent last went elsewhere") {
    val d = new RemoteDriver(readsAhead = true)
    val s = withTwoShards(d)
    d.offer(0, 2)
    s.turns()
    s.work(1)
    s.home.release()
    s.turns()
    s.frame(answers = true)
    s.work(9)
    s.frame()
    s.turns()
    assert(s.home.isOver)
  }

  test("a lane without a shard gets its end at once") {
    val d = new RemoteDriver()
    val s = new d.Session(2)
    assert(!s.turn())
    s.home.release()
    s.turns()
    assert(s.told.toSeq == Seq("end"))
  }

  test("a shard on its way to a lane that is released meanwhile goes on to another") {
    val d = new RemoteDriver()
    val s = new d.Session(2)
    d.offer(0)
    d.move(0, to = 2)
    s.home.release()
    assert(s.turn() == false, "the end waits for what is on its way")
    d.letGo(0)
    s.turns()
    assert(d.inlet.owner(0) < 2 && s.home.isOver)
    assert(d.queued(0) + d.queued(1) == "0:0")
  }

  test("at the end of the input hosts work on what they have, and shards may move meanwhile") {
    val d = new RemoteDriver(windowBytes = 20)
    val s = withTwoShards(d)
    d.offer(0, 2)
    d.offer(1, 1)
    s.turns()
    d.offer(2, 3)
    val receiver = new Waiting(d.inlet.finish((_, _) => ()))
    receiver.assertWaiting()
    assert(s.work(1) == "0:0")
    s.frame()
    s.turns()
    d.move(1, to = 2)
    d.letGo(1)
    assert(s.work(1) == "0:1")
    s.frame()
    s.turns()
    assert(s.work(9) == "2:0 2:1 2:2")
    s.frame()
    receiver.assertWaiting()
    s.turns()
    receiver.assertWaiting()
    assert(s.work(9) == "1:0", "it came when the input had ended")
    assert(!s.told.exists(_.startsWith("recall")))
    s.frame()
    s.turns()
    assert(receiver.end() == null && d.inlet.routing.forall(_ < 2))
    s.turns()
    assert(d.inlet.stats.laneRows.toSeq == Seq(0, 0, 6) && s.told.last == "end")
  }

  test("who loses its host while the input's end waits for it does not hold it up") {
    val d = new RemoteDriver()
    val s = withTwoShards(d)
    d.offer(0, 2)
    s.turns()
    val receiver = new Waiting(d.inlet.finish((_, _) => ()))
    receiver.assertWaiting()
    s.home.lost()
    assert(receiver.end() == null && d.queued(0) + d.queued(1) == "0:0 0:1")
    val another = new RemoteDriver()
    val t = withTwoShards(another)
    another.offer(0, 2)
    t.turns()
    val waiting = new Waiting(another.inlet.finish((_, _) => ()))
    waiting.assertWaiting()
    t.home.release()
    t.turns()
    assert(t.told.last == "recall 0 2 up to 2")
    t.frame(answers = true)
    assert(waiting.end() == null && another.queued(0) + another.queued(1) == "0:0 0:1")
  }

  test("at the end of the input all shards come home before routing and lanes are fixed") {
    val d = new RemoteDriver(readsAhead = true)
    val s = withTwoShards(d)
    d.offer(0, 2)
    s.turns()
    s.work(9)
    s.frame()
    d.move(1, to = 2) // on its way when the input ends
    s.turns()
    val fixed = new AtomicReference[(Seq[Int], Seq[Int])]
    val receiver = new Waiting(d.inlet.finish((routing, lanes) => fixed.set((routing.toSeq, lanes))))
    receiver.assertWaiting()
    assert(!d.mayJoin(3), "the input ends")
    s.turns()
    d.letGo(1)
    receiver.assertWaiting()
    assert(fixed.get == null)
    s.frame(answers = true)
    receiver.assertWaiting()
    s.turns()
    assert(s.told.last == "recall 1 up to 2", "it came while the host was asked for the others")
    s.frame(answers = true)
    assert(receiver.end() == null)
    assert(fixed.get._1.forall(_ < 2) && fixed.get._2 == Seq(0, 1))
    s.turns()
    assert(s.told.last == "end")
  }

  // ---- losses

  test("a lost lane's shards go at once: first the rows that no frame covers, then the queue") {
    val d = new RemoteDriver()
    val s = withTwoShards(d)
    d.offer(0, 3)
    d.offer(2, 1)
    s.turns()
    d.offer(0, 2)
    s.work(1)
    s.frame()
    s.home.lost()
    val routing = d.inlet.routing
    assert(routing.forall(_ < 2))
    assert(routing.toSeq == Seq(0, 1, 0, 1) && d.queued(0) == "0:1 0:2 0:3 0:4 2:0")
    assert(d.settled.takeRight(2).forall(_.reason == MoveReason.HostLost))
    assert(d.inlet.stats.inFlight == 0 && d.inlet.bufferedBytes == 50)
  }

  test("a frame that comes from a lost host is refused") {
    val d = new RemoteDriver()
    val s = withTwoShards(d)
    d.offer(0)
    s.turns()
    s.work(1)
    s.home.lost()
    assert(s.home.isLost)
    intercept[IllegalStateException](s.frame())
  }

  test("lost with handoffs from it and to it, and to another lane that is lost") {
    val d = new RemoteDriver()
    val s = withTwoShards(d)
    val other = new d.Session(3)
    d.offer(0, 2)
    s.turns()
    d.move(0, to = 3)
    s.turns()
    assert(s.told.last == "recall 0 up to 2")
    d.move(1, to = 3)
    d.move(3, to = 2)
    other.home.lost()
    assert(d.inlet.owner(0) == 2 && d.inlet.stats.inFlight == 3)
    s.home.lost()
    assert(d.inlet.owner(0) < 2 && d.inlet.owner(2) < 2 && d.inlet.stats.inFlight == 2)
    assert(d.queued(d.inlet.owner(0)) == "0:0 0:1")
    d.letGo(1)
    assert(d.inlet.routing.forall(_ < 2) && d.inlet.stats.inFlight == 0)
  }

  test("a slot is joined again, and the new session knows nothing of the old one") {
    val d = new RemoteDriver()
    val s = withTwoShards(d)
    d.offer(0, 2)
    s.turns()
    d.move(0, to = 1)
    s.turns()
    s.home.poke()
    s.home.lost()
    assert(d.inlet.owner(0) == 1 && d.inlet.owner(2) < 2)
    val again = new d.Session(2)
    assert(!again.turn() && !d.inlet.isRecalled(LaneId(2)))
    d.move(1, to = 2)
    d.letGo(1)
    d.offer(1)
    again.turns()
    assert(again.told.toSeq == Seq("arrived 1", "rows 1: 1:0"))
  }

  test("after a failure nobody joins, and a remote lane is stopped with the cause") {
    val d = new RemoteDriver()
    val s = withTwoShards(d)
    val cause = new IllegalStateException("boom")
    d.inlet.fail(cause)
    assert(!d.mayJoin(3))
    Seq[() => Unit](() => s.home.turn(), () => s.home.lost()).foreach { call =>
      assert(intercept[PartitionStopped](call()).getCause == cause)
    }
  }

  // ---- lanes for a whole batch

  test("lanes that are there before the first row keep their shards to the end, through all inputs") {
    val d = new RemoteDriver(readsAhead = true)
    val s = new d.Session(2)
    assert(d.inlet.fix() == Seq(0, 1, 2))
    assert(!d.mayJoin(3), "routing and lanes are fixed")
    d.inlet.route(Array(0, 1, 2, 2))
    d.offer(2, 2)
    d.inlet.nextInput()
    d.offer(3)
    s.turns()
    assert(s.told.toSeq == Seq("rows 1: 2:0 2:1", "next input", "rows 3: 3:0"))
    assert(s.work(3) == "2:0 2:1" && s.host.isBetweenInputs && s.host.position == 2)
    s.host.nextInput()
    assert(s.work(3) == "3:0")
    var last = Seq.empty[Int]
    d.inlet.finish { (routing, lanes) =>
      assert(routing.toSeq == Seq(0, 1, 2, 2))
      last = lanes
    }
    assert(last == Seq(0, 1, 2) && !s.turn(), "rows are not covered yet")
    s.frame()
    s.turns()
    assert(s.home.isOver && s.told.last == "end" && d.inlet.routing.toSeq == Seq(0, 1, 2, 2))
    s.home.leave()
    assert(d.inlet.stats.active.toSeq == Seq(0, 1))
  }

  test("shards are not given to a lane that is not there, nor before lanes are fixed") {
    val d = new RemoteDriver()
    intercept[IllegalArgumentException](d.inlet.route(Array(0, 1, 0, 1)))
    d.inlet.fix()
    intercept[IllegalArgumentException](d.inlet.route(Array(0, 1, 2, 1)))
  }

  // ---- bounds and waits

  test(
    "rows stay in the queue while the window is full, and a receiver that waits for it goes on after a frame"
  ) {
    val d = new RemoteDriver(queueBytes = 30, windowBytes = 20)
    val s = withTwoShards(d)
    d.offer(0, 3)
    s.turns()
    assert(s.home.keptBytes == 30)
    val receiver = new Waiting(d.offer(0, 4))
    receiver.assertWaiting()
    assert(!s.turn() && d.queued(2) == "0:3 0:4 0:5")
    s.work(2)
    s.frame()
    assert(!s.turn(), "a block is kept until its last row is covered")
    s.work(1)
    s.frame()
    assert(s.turn())
    assert(receiver.end() == null && d.queued(2) == "0:6")
  }

  test("a remote lane that waits is woken by a poke, by rows, by a recall and by its release") {
    val d = new RemoteDriver()
    val s = withTwoShards(d)
    def waiting(): Waiting = {
      val thread = new Waiting(s.home.turn())
      thread.assertWaiting()
      thread
    }
    val poked = waiting()
    s.home.poke()
    assert(poked.end() == null)
    s.home.poke()
    s.home.turn() // it had been at something else: the poke is not lost
    val rows = waiting()
    d.offer(0)
    assert(rows.end() == null && s.told.last == "rows 1: 0:0")
    val recalled = waiting()
    d.move(0, to = 1)
    assert(recalled.end() == null && s.told.last == "recall 0 up to 1")
    s.work(1)
    s.frame(answers = true)
    val released = waiting()
    s.home.release()
    assert(released.end() == null && s.told.last == "end")
  }

  test("a remote lane shows in the numbers from the moment at which it may own shards") {
    val d = new RemoteDriver()
    assert(d.inlet.stats.queueRows.length == 2)
    new d.Session(2)
    d.move(0, to = 2)
    d.letGo(0)
    d.offer(0, 2)
    val stats = d.inlet.stats
    assert(stats.routing(0) == 2 && stats.queueRows.toSeq == Seq(0, 0, 2) && stats.active.toSeq == Seq(
      0,
      1,
      2
    ))
    assert(stats.startedLanes == 2 && stats.busyNs(2) == 0)
  }

  // ---- numbers

  private def block(shards: Int*): ArrayBlock = {
    val block = new ArrayBlock(shards.size)
    shards.zipWithIndex.foreach { case (s, i) => block.append(Item(s, i.toLong), s) }
    block
  }

  private def extract(block: ArrayBlock, shard: Int): Unit =
    block.extract(shard, 0, new RowQueue[Item](() => new ArrayBlock(9)))

  test("kept rows are numbered by their places, and a block goes with its last one") {
    val kept = new KeptRows[Item]
    assert(kept.isEmpty && kept.last == 0)
    val (first, second) = (block(0, 1, 0), block(0, 0))
    extract(first, 1)
    assert(kept.add(first) == 1 && kept.add(second) == 4 && kept.last == 5 && kept.bytes == 40)
    kept.cover(2)
    assert(kept.behind == Seq(Remainder(first, 2), Remainder(second, 0)))
    kept.cover(3)
    assert(kept.behind == Seq(Remainder(second, 0)) && kept.bytes == 20)
    kept.cover(4)
    extract(second, 0)
    assert(kept.behind == Seq(Remainder(second, 1)) && kept.bytes == 0 && !kept.isEmpty)
    kept.cover(5)
    assert(kept.isEmpty && kept.behind.isEmpty)
  }

  test("a frame that covers less than the one before, or more than was sent, is refused") {
    val kept = new KeptRows[Item]
    kept.add(block(0, 0, 0))
    kept.cover(2)
    Seq(1L, 4L, -1L).foreach(n => intercept[IllegalArgumentException](kept.cover(n)))
    assert(kept.behind.map(_.from) == Seq(2))
  }

  test("a host counts places from which rows were extracted, and passes them") {
    val host = new HostEnd[Item](3)
    val first = block(0, 1, 0)
    extract(first, 0)
    host.add(1, first)
    host.add(4, block(2))
    assert(host.position == 0 && host.advance() && host.position == 2 && host.shard == 1)
    assert(host.advance() && host.position == 4 && host.shard == 2 && host.index == 0)
    assert(!host.advance() && host.position == 4)
  }

  test("a host works on no row of what is recalled up to the last one, and on those that come later") {
    val host = new HostEnd[Item](2)
    host.add(1, block(0, 1, 0))
    assert(host.advance() && host.position == 1)
    host.recalled(Seq(0), upTo = 3)
    assert(host.advance() && host.position == 2 && host.shard == 1)
    assert(!host.advance() && host.position == 3)
    host.add(4, block(0))
    assert(host.advance() && host.position == 4)
  }

  test("rows that do not follow what a host has, and a recall of what it has not, are refused") {
    val host = new HostEnd[Item](2)
    host.add(1, block(0, 1))
    Seq(1L, 2L, 4L).foreach(n => intercept[IllegalArgumentException](host.add(n, block(0))))
    intercept[IllegalArgumentException](host.recalled(Seq(0), upTo = 3))
  }

  private final class Waiting(work: => Unit) {
    private val error = new AtomicReference[Throwable]
    private val thread = new Thread(() =>
      try work
      catch { case e: Throwable => error.set(e) }
    )
    thread.setDaemon(true)
    thread.start()

    def assertWaiting(): Unit = eventually(assert(thread.getState == Thread.State.WAITING))

    def end(): Throwable = {
      thread.join(60000L)
      assert(!thread.isAlive)
      error.get
    }
  }
}
