package laneshift.lane

import java.util.concurrent.{CompletableFuture, ConcurrentLinkedQueue, TimeUnit}

import scala.jdk.CollectionConverters._

import laneshift.ids.LaneId
import laneshift.routing.RoutingTable
import laneshift.testing.LimitedSuite

/** Several inputs over one inlet (docs/handoff.md, section 9): a receiver and lanes as threads, with room for one row per
  * lane. Whatever the order in which the lanes read the inputs, and however rows are spread, nobody waits for ever.
  */
class InputTurnsSuite extends LimitedSuite {
  private val lanes = 3
  private val keys = 12 // per input; a multiple of the shards: a key's rows of all inputs have one shard
  private val shards = 6

  /** `inputs` gives each input's keys in arrival order; `pause` is what a lane does between two rows. */
  private def run(inputs: Seq[Seq[Int]], order: Seq[Int], pause: Int => Unit = _ => ()): Unit = {
    val state = new KeyedState(keys * inputs.size, shards)
    val counts = new Array[Long](keys * inputs.size)
    val errors = new ConcurrentLinkedQueue[Throwable]
    val turns = new InputTurns(inputs.size)
    val inlet = new Inlet[Item](
      InletLimits(lanes, queueBytes = 1L),
      RoutingTable.roundRobin(shards, lanes),
      lanes,
      () => new ArrayBlock(3),
      () => 0L,
      _ => (),
      _ => (),
      idleIsDone = false
    )

    def receive(): Unit = {
      inputs.indices.foreach { turn =>
        if (turn > 0) inlet.nextInput()
        val input = turns.await(turn)
        inputs(input).foreach { k =>
          val key = input * keys + k
          inlet.offer(Item(key, counts(key)), state.shardOf(key))
          counts(key) += 1
        }
      }
      inlet.finish((_, _) => ())
    }

    def runLane(lane: Int): Unit = order.zipWithIndex.foreach { case (input, turn) =>
      turns.ask(turn, input)
      var reading = true
      while (reading) inlet.take(LaneId(lane)) match {
        case Taken.Rows(rows) =>
          val block = rows.asInstanceOf[ArrayBlock]
          (0 until block.size).foreach { i =>
            val item = block.itemAt(i)
            assert(
              item.key / keys == input,
              s"lane $lane got a row of input ${item.key / keys} in $input's place"
            )
            state.process(lane, item, block.shardAt(i))
            pause(lane)
          }
        case Taken.NextInput => assert(turn < order.size - 1); reading = false
        case Taken.End => assert(turn == order.size - 1); reading = false
        case Taken.Recall => fail("nothing moves")
      }
    }

    val work = (() => receive()) +: (0 until lanes).map(i => () => runLane(i))
    val threads = work.map { w =>
      val thread = new Thread(() =>
        try w()
        catch { case e: Throwable => errors.add(e); inlet.fail(e) }
      )
      thread.setDaemon(true)
      thread.start()
      thread
    }
    val deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60)
    threads.foreach(_.join(math.max(1L, (deadline - System.nanoTime()) / 1000000L)))
    errors.asScala.headOption.foreach(e => throw e)
    val stuck = threads.filter(_.isAlive).map(_.getStackTrace.take(4).mkString(" < "))
    assert(stuck.isEmpty, "threads wait in a circle")
    state.check(counts)
  }

  private val mixed = Seq.tabulate(900)(i => (i * 7 + i / 5) % keys)
  private val ofOneLane = Seq.fill(300)(Seq(0, 6)).flatten
  private val ofAnother = Seq.fill(300)(Seq(1, 7)).flatten

  for (order <- Seq(Seq(0, 1), Seq(1, 0)))
    test(s"two inputs in the order ${order.mkString(", ")}")(run(Seq(mixed, mixed.reverse), order))

  test("three inputs, the last first")(run(Seq(mixed, mixed, mixed), Seq(2, 0, 1)))

  test("each input has rows of one lane only") {
    run(Seq(ofOneLane, ofAnother), Seq(0, 1))
    run(Seq(ofOneLane, ofAnother), Seq(1, 0))
  }

  test("empty inputs") {
    run(Seq(Nil, mixed), Seq(0, 1))
    run(Seq(mixed, Nil), Seq(0, 1))
    run(Seq(Nil, Nil, Nil), Seq(1, 2, 0))
  }

  test("a late lane is at the first input while others are done with it") {
    run(Seq(mixed, mixed), Seq(0, 1), lane => if (lane == 0) TimeUnit.MICROSECONDS.sleep(300L))
  }

  test("whoever waits for an input hears that the task has failed") {
    val turns = new InputTurns(2)
    val heard = new CompletableFuture[Throwable]
    val receiver = new Thread(() =>
      try heard.completeExceptionally(new AssertionError(s"input ${turns.await(0)}"))
      catch { case stopped: PartitionStopped => heard.complete(stopped.getCause) }
    )
    receiver.setDaemon(true)
    receiver.start()
    while (receiver.getState != Thread.State.WAITING) Thread.onSpinWait()
    val cause = new IllegalStateException("planted")
    turns.fail(cause)
    assert(heard.get() eq cause)
    assert(intercept[PartitionStopped](turns.await(1)).getCause eq cause)
  }

  test("lanes that read in different orders are told so") {
    val turns = new InputTurns(2)
    turns.ask(0, 1)
    assert(turns.await(0) == 1)
    val error = intercept[IllegalStateException](turns.ask(0, 0))
    assert(error.getMessage.contains("one lane reads input 1 as number 0, another input 0"))
  }
}
