package laneshift.lane.explore

import java.util.SplittableRandom

import scala.collection.mutable.ArrayBuffer

import laneshift.ids.LaneId
import laneshift.lane._

/** One batch of a partition whose rows are dealt, drawn from a seed: who goes on when, and everything else. Row `i` gives
  * `i % 3` outputs; they have to come out in the order of the rows, all of them, once, each with its row's origin.
  */
final class DealsSchedule(seed: Long) {
  private val random = new SplittableRandom(seed)
  private val rows = random.nextInt(40)
  private val maxLanes = 1 + random.nextInt(4)
  private val readsAhead = random.nextBoolean()

  /** Rows that a lane's operators collect before they answer. */
  private val batch = if (readsAhead) 1 + random.nextInt(12) else 1
  private val perBlock = 1 + random.nextInt(5)
  private val lingers = random.nextInt(3) == 0

  /** Of each row; as many rows one after the other as there are of one file. */
  private val origins = {
    val files = random.split()
    val of = Iterator.iterate(new Object)(o => if (files.nextInt(4) == 0) new Object else o)
    Vector.fill(rows)(of.next())
  }
  private val lock = new VirtualLock
  private var now = 0L
  private val ready = ArrayBuffer.empty[Step]
  private val started = 1 + random.nextInt(maxLanes)

  /** Outputs are rows' numbers; a block has those of one deal. */
  private type Outputs = Vector[Int]

  private def blockOf(outputs: Outputs): ArrayBlock = {
    val block = new ArrayBlock(outputs.size)
    outputs.foreach(row => block.append(Item(row, row.toLong), 0))
    block
  }

  private val work =
    DealWork(readsAhead, 5L, 1 + random.nextInt(6), if (lingers) 20L else DealWork.Forever)

  private val deals = new Deals[Item](
    DealLimits(
      maxLanes,
      10L * (1 + random.nextInt(8)),
      10L * random.nextInt(4),
      Option.when(random.nextBoolean())(QueueTime(
        1L + random.nextInt(20),
        leastRows = 1L + random.nextInt(3)
      ))
    ),
    work,
    started,
    () => new ArrayBlock(perBlock),
    lane => add(new LaneSteps(lane)),
    () => now,
    lock,
    Option.when(random.nextInt(3) == 0)(DealsBefore(random.nextInt(60).toLong, DealCost.unknown(work)))
  )

  private val expected = (0 until rows).flatMap(outputsOf)
  private var emitted = Vector.empty[Int]
  private def outputsOf(row: Int): Seq[Int] = Seq.fill(row % 3)(row)

  /** A thread as steps that never wait. */
  private sealed abstract class Step(val name: String) {
    var over = false
    var sleepsOn: VirtualCondition = _
    def index: Int = ready.indexOf(this)
    def isReady: Boolean = !over && (sleepsOn == null || !sleepsOn.isWaiting(index))
    def sleep(on: VirtualCondition): Unit = {
      sleepsOn = on
      on.add(index)
    }
    def run(): Unit = {
      if (sleepsOn != null) {
        sleepsOn.remove(index)
        sleepsOn = null
      }
      step()
    }
    def step(): Unit
  }

  private final class ReceiverSteps extends Step("receiver") {
    private var at = 0
    override def step(): Unit =
      if (at < rows) {
        if (lock.within(deals.tryOffer(Item(at, at.toLong), origins(at)))) at += 1
        else sleep(lock.conditions(0))
      } else {
        deals.finish()
        over = true
      }
  }

  private final class EmitterSteps extends Step("emitter") {
    override def step(): Unit = lock.within(deals.tryEmit()) match {
      case null => sleep(lock.conditions(1))
      case None => over = true
      case Some(outputs) =>
        val these = (0 until outputs.size).map(outputs.asInstanceOf[ArrayBlock].itemAt(_).key)
        these.find(origins(_) ne outputs.origin).foreach(row =>
          throw new AssertionError(s"row $row comes with another's origin")
        )
        emitted ++= these
    }
  }

  /** Takes deals, works on the rows one by one or, if its operators read ahead, on some together, and puts out. */
  private final class LaneSteps(lane: LaneId) extends Step(s"lane ${lane.value}") {
    private var block: ArrayBlock = _
    private var at = 0

    /** Rows in its operators. */
    private var inside = Vector.empty[Int]
    private val toPut = new java.util.ArrayDeque[Outputs]
    private var looks = 0
    private var flushing = false
    private var ending = false
    private var leaving = false

    override def step(): Unit =
      if (!toPut.isEmpty) {
        if (lock.within(deals.tryPut(lane, blockOf(toPut.peekFirst())))) toPut.removeFirst()
        else sleep(lock.conditions(2))
      } else if (leaving) {
        deals.answered(lane)
        deals.left(lane)
        over = true
      } else if (flushing || ending) {
        answer(inside.size)
        leaving = ending
        if (flushing && toPut.isEmpty) {
          deals.answered(lane)
          flushing = false
        }
      } else if (block != null && at < block.size) {
        inside :+= block.itemAt(at).key
        at += 1
        if (inside.size >= batch) answer(batch)
      } else take()

    /** The operators answer for their first rows. */
    private def answer(count: Int): Unit = {
      val outputs = inside.take(count).flatMap(outputsOf)
      if (outputs.nonEmpty) toPut.addLast(outputs)
      inside = inside.drop(count)
    }

    private def take(): Unit = {
      looks += 1
      val looksAgain = looks % 4 != 0
      lock.within(deals.tryTake(lane, looksAgain)) match {
        case null => if (!looksAgain && !lingers) sleep(lock.conditions(3 + lane.value))
        case Dealt.Rows(dealt) =>
          block = dealt.asInstanceOf[ArrayBlock]
          at = 0
        case Dealt.Flush => flushing = true
        case Dealt.End => ending = true
      }
    }
  }

  /** Somebody who changes the number of lanes. */
  private final class ControlSteps extends Step("control") {
    private var left = random.nextInt(6)
    override def step(): Unit = {
      left -= 1
      over = left < 0
      if (!over) deals.setLanes(1 + random.nextInt(maxLanes))
      ()
    }
  }

  private def add(step: Step): Unit = ready += step

  def run(): Unit = {
    add(new ReceiverSteps)
    add(new EmitterSteps)
    add(new ControlSteps)
    (0 until started).foreach(i => add(new LaneSteps(LaneId(i))))
    val chooser = Chooser.draw(random, ready.size + maxLanes)
    var steps = 0
    while (ready.exists(!_.over)) {
      val set = ready.indices.filter(ready(_).isReady).foldLeft(0)((s, i) => s | (1 << i))
      if (set == 0) throw new AssertionError(s"nobody can go on but ${ready.filterNot(_.over).map(_.name)}")
      now += 1
      ready(chooser.next(set)).run()
      steps += 1
      if (steps > 100000) throw new AssertionError("it does not end")
    }
    if (emitted != expected) throw new AssertionError(s"$emitted came out and not $expected")
    if (deals.bufferedBytes != 0) throw new AssertionError(s"${deals.bufferedBytes} bytes are left")
  }
}
