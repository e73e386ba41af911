package org.apache.spark.sql.laneshift.runtime

import java.util.concurrent.CyclicBarrier
import java.util.concurrent.atomic.AtomicInteger

import laneshift.routing.TaskRanges
import laneshift.testing.LimitedSuite

/** Lanes at the start of a micro-batch's tasks, with tasks that take what they should: one nanosecond a byte, in bytes of a second. */
class OperatorWorkSuite extends LimitedSuite {
  private def each(partitions: Int): TaskRanges = TaskRanges(partitions, partitions)
  private val second = 1000000000L

  /** Runs stages on `cores` cores by the clock of a simulation, tasks in order of their partitions. */
  private final class Stages(
      cores: Int,
      slots: Int = 0,
      maxLanes: Int = 64,
      gain: (Int, Int) => Double = (lanes, _) => lanes.toDouble,
      slowness: (Long, Int) => Double = (_, _) => 1.0
  ) {
    private val operator = new OperatorWork(cores, maxLanes)
    private var batch = 0L
    private var nowNs = 0L

    private def took(partition: Int, bytes: Long, lanes: Int): Long =
      (bytes / gain(lanes, partition) * slowness(batch, partition)).toLong

    /** The lanes of each partition; tasks take their seconds divided by what their lanes gain. */
    def run(seconds: Double*): Seq[Int] = {
      val bytes = seconds.map(s => (s * second).toLong).toArray
      val attempt = StageAttempt(batch, batch.toInt, 0)
      val lanes = new Array[Int](bytes.length)
      var running = Map.empty[Int, Long]
      var next = 0
      while (next < bytes.length || running.nonEmpty) {
        while (next < bytes.length && running.size < cores) {
          lanes(next) = operator
            .begin(
              attempt,
              next,
              Some(bytes),
              each(bytes.length),
              math.max(cores, slots),
              running.size + 1,
              0,
              nowNs
            )
            .get
          running += next -> (nowNs + took(next, bytes(next), lanes(next)))
          next += 1
        }
        val (done, at) = running.minBy(_._2)
        running -= done
        nowNs = at
        operator.ended(attempt, done, Some(lanes(done)), took(done, bytes(done), lanes(done)))
      }
      batch += 1
      lanes.toSeq
    }

    /** A batch whose row-wise work is apart asks for no lanes. */
    def apart(): Unit = batch += 1
  }

  test("a comparison with one lane comes later if its batch is another kind of batch") {
    val stages = new Stages(cores = 2)
    def run() = stages.run(7.5, 0.8, 0.8, 0.8)
    assert(Seq.fill(3)(run()) == Seq(Seq(1, 1, 1, 1), Seq(2, 1, 1, 1), Seq(2, 1, 1, 1)))
    stages.apart()
    assert(Seq.fill(3)(run()) == Seq(Seq(2, 1, 1, 1), Seq(1, 1, 1, 1), Seq(2, 1, 1, 1)))
  }

  test(
    "the first batch has one lane each; then a hot partition gets what lets it end with the others"
  ) {
    val stages = new Stages(cores = 2)
    assert(stages.run(7.5, 0.8, 0.8, 0.8) == Seq(1, 1, 1, 1))
    assert(stages.run(7.5, 0.8, 0.8, 0.8) == Seq(2, 1, 1, 1))
    assert(stages.run(0.8, 0.8, 0.8, 7.5) == Seq(1, 1, 1, 2), "a hot one that begins last")
  }

  test("one that begins while others keep the cores busy as long is left alone") {
    val stages = new Stages(cores = 4)
    val even = Seq.fill(199)(1.0)
    stages.run(20.0 +: even: _*)
    assert(stages.run(20.0 +: even: _*).head == 1, "20 s of 54")
    stages.run(even: _*)
    assert(stages.run(even :+ 20.0: _*).last == 4, "it would be alone for 20 s")
  }

  test("partitions as large as each other, and little ones, stay on the stock path") {
    for (cores <- Seq(1, 2, 4, 8); waves <- 1 to 3) {
      val stages = new Stages(cores)
      val even = Seq.fill(cores * waves)(5.0)
      assert((0 until 5).forall(_ => stages.run(even: _*).forall(_ == 1)), (cores, waves))
    }
    val little = new Stages(cores = 8)
    assert((0 until 5).forall(_ => little.run(0.2, 0.01, 0.01).forall(_ == 1)))
  }

  test("fewer partitions than cores: all cores work") {
    val stages = new Stages(cores = 8)
    stages.run(4, 4)
    assert(stages.run(4, 4) == Seq(4, 4))
    val bounded = new Stages(cores = 8, maxLanes = 3)
    bounded.run(4, 4)
    assert(bounded.run(4, 4) == Seq(3, 3))
  }

  test("tasks that are started together and begin in another order do not take each other's cores") {
    val operator = new OperatorWork(cores = 8, maxLanes = 8)
    val bytes = Array.fill(8)(2 * second)
    def begin(batch: Long, order: Seq[Int]) = {
      val attempt = StageAttempt(batch, batch.toInt, 0)
      val lanes = order.map(operator.begin(attempt, _, Some(bytes), each(8), 8, 8, 0, 0L).get)
      order.foreach(operator.ended(attempt, _, Some(1), 2 * second))
      lanes
    }
    begin(0L, 0 until 8)
    assert(begin(1L, Seq(0, 7, 6, 5, 4, 3, 2, 1)).forall(_ == 1))
    assert(begin(2L, Seq(7, 0, 1, 2, 3, 4, 5, 6)).forall(_ == 1))
    assert(begin(3L, 0 until 8).forall(_ == 1))
  }

  test("a batch of a few rows says little of what a byte takes") {
    val operator = new OperatorWork(cores = 8, maxLanes = 8)
    def run(batch: Long, bytes: Array[Long], tookNs: Long) = {
      val attempt = StageAttempt(batch, batch.toInt, 0)
      val lanes = bytes.indices.map(i =>
        operator.begin(attempt, i, Some(bytes), each(8), 8, i + 1, 0, 0L).get
      )
      bytes.indices.foreach(i => operator.ended(attempt, i, Some(lanes(i)), if (bytes(i) > 0) tookNs else 0L))
      lanes
    }
    val (even, few) = (Array.fill(8)(second), Array(90L, 0L, 0L, 0L, 0L, 0L, 0L, 0L))
    run(0L, even, second)
    run(1L, few, second / 16)
    assert(run(2L, even, second).forall(_ == 1))
  }

  test("lanes are compared with one lane in a batch as large as theirs") {
    val stages = new Stages(cores = 2)
    def run() = stages.run(7.5, 0.8, 0.8, 0.8)
    assert(Seq.fill(3)(run()).last == Seq(2, 1, 1, 1))
    stages.run(0.5, 0.05, 0.05, 0.05)
    assert(Seq.fill(3)(run()) == Seq(Seq(2, 1, 1, 1), Seq(1, 1, 1, 1), Seq(2, 1, 1, 1)))
  }

  test("tasks that begin together ask once what the stage has to do") {
    val operator = new OperatorWork(cores = 8, maxLanes = 8)
    val (together, asked) = (new CyclicBarrier(8), new AtomicInteger)
    def sizes() = {
      asked.incrementAndGet()
      Some(Array.fill(8)(second))
    }
    val tasks = (0 until 8).map { partition =>
      new Thread(() => {
        together.await()
        operator.begin(StageAttempt(0L, 0, 0), partition, sizes(), each(8), 8, 0, 0, 0L)
        ()
      })
    }
    tasks.foreach(_.start())
    tasks.foreach(_.join())
    assert(asked.get == 1)
    operator.begin(StageAttempt(1L, 1, 0), 0, sizes(), each(8), 8, 0, 0, 0L)
    assert(asked.get == 2, "another stage")
  }

  test("of many maps with many partitions some stand for all") {
    var read = 0
    def sum(maps: Int, partitions: Int)(size: (Int, Int) => Long) = {
      read = 0
      val bytes = new Array[Long](partitions)
      ShuffleSizes.add(maps, bytes) { (map, partition) =>
        read += 1
        size(map, partition)
      }
      bytes.toSeq
    }
    assert(sum(3, 2)((map, partition) => 10L * map + partition) == Seq(30L, 33L), "few are all read")
    val many = sum(1000, 1000)((_, partition) => partition.toLong)
    assert((0 until 1000).forall(i => many(i) == i * 1000L) && read <= ShuffleSizes.MostSizes)
    assert(sum(9, 1 << 17)((_, _) => 1L).toSet == Set(9L) && read == 1 << 17, "one at least")
    assert(sum(0, 2)((_, _) => 1L) == Seq(0L, 0L))
  }

  test("tasks of other stages keep their cores") {
    val operator = new OperatorWork(cores = 8, maxLanes = 8)
    def begin(batch: Long, tasks: Int) = {
      val attempt = StageAttempt(batch, 0, 0)
      val lanes = operator.begin(attempt, 0, Some(Array(4 * second)), each(1), 8, 0, tasks, 0L)
      operator.ended(attempt, 0, lanes, 4 * second / lanes.get)
      lanes
    }
    assert(begin(0L, tasks = 0).contains(1))
    assert(begin(1L, tasks = 0).contains(8))
    assert(begin(2L, tasks = 5).contains(3))
    assert(begin(3L, tasks = 20).contains(1))
  }

  test("with executors beside this one, theirs is their part of what is to come") {
    val alone = new Stages(cores = 2, slots = 2)
    val four = new Stages(cores = 2, slots = 8)
    val load = 4.0 +: Seq.fill(8)(1.0)
    Seq(alone, four).foreach(_.run(load: _*))
    assert(alone.run(load: _*).head == 1, "4 s of 12 on two cores")
    assert(four.run(load: _*).head == 2, "the others' 8 s are shared with six other cores")
  }

  test("lanes that do not pay are tried rarely: a share of the batches that goes to nothing") {
    val stages = new Stages(cores = 2, gain = (n, _) => if (n == 1) 1.0 else 0.67)
    val tried = (0 until 1000).filter(_ => stages.run(7.5, 0.8, 0.8, 0.8).head > 1)
    assert(tried.nonEmpty && tried.size <= 14, tried)
    assert(tried.count(_ < 19) <= 2 && tried.count(_ >= 500) <= 4, tried)
  }

  test(
    "what was slow in the first batch, and is not any more, is not taken for what lanes have brought"
  ) {
    val stages =
      new Stages(cores = 2, gain = (_, _) => 1.0, slowness = (batch, _) => if (batch < 1) 5.0 else 1.0)
    val tried = (0 until 100).filter(_ => stages.run(7.5, 0.8, 0.8, 0.8).head > 1)
    assert(tried.nonEmpty && tried.size <= 8, tried)
  }

  test("lanes that pay stay, but for one batch in many that measures one lane again") {
    val stages = new Stages(cores = 2, gain = (n, _) => if (n == 1) 1.0 else 1.5)
    val one = (1 until 1000).filter(_ => stages.run(7.5, 0.8, 0.8, 0.8).head == 1)
    assert(one.size <= 8, one)
  }

  test("what lanes bring is what they bring to the partition that holds the stage back") {
    // A light partition was slow in the first batch, got lanes for that, and gained nothing.
    val stages = new Stages(
      cores = 8,
      gain = (lanes, partition) => if (partition == 7) 1.0 else lanes.toDouble,
      slowness = (batch, partition) => if (batch == 0 && partition == 7) 12.0 else 1.0
    )
    val seconds = 6.0 +: Seq.fill(7)(0.85)
    stages.run(seconds: _*)
    assert(stages.run(seconds: _*).last > 1, "the premise")
    val one = (2 until 100).filter(_ => stages.run(seconds: _*).head == 1)
    assert(one.size <= 4, one)
  }

  test("a task that fails tells nothing, a new attempt of its stage begins anew") {
    val operator = new OperatorWork(cores = 2, maxLanes = 8)
    val bytes = Array(8 * second, second, second, second)
    val (first, again) = (StageAttempt(0L, 0, 0), StageAttempt(0L, 0, 1))
    operator.begin(first, 0, Some(bytes), each(4), 2, 0, 0, 0L)
    operator.failed(first, 0)
    operator.ended(StageAttempt(9L, 9, 9), 0, Some(1), second)
    operator.begin(again, 0, Some(bytes), each(4), 2, 0, 0, 0L)
    assert(operator.begin(again, 3, None, each(4), 2, 0, 0, 0L).contains(1), "no cost is known")
    assert(new OperatorWork(2, 8).begin(first, 0, None, each(4), 2, 0, 0, 0L).isEmpty, "no sizes, no advice")
  }

  test(
    "partitions of one task are one task's work: each gets what lets the task end with the others"
  ) {
    val operator = new OperatorWork(cores = 4, maxLanes = 8)
    // Two tasks of four partitions on four cores: 8 s and 4 s of work, 3 s for each core.
    val bytes = Array(2, 2, 2, 2, 1, 1, 1, 1).map(_ * second)
    val ranges = TaskRanges(8, 2)
    def batch(number: Long): Seq[Int] = {
      val attempt = StageAttempt(number, number.toInt, 0)
      val sizes = Some(bytes)
      def begin(partition: Int) = operator.begin(attempt, partition, sizes, ranges, 2, 0, 0, 0L).get
      val first = Seq(begin(0), begin(4))
      operator.ended(attempt, 0, first.headOption, bytes(0) / first.head)
      operator.ended(attempt, 4, first.lastOption, bytes(4) / first.last)
      first
    }
    assert(batch(0L) == Seq(1, 1))
    assert(batch(1L) == Seq(3, 2))
  }

  test("little partitions beside a hot one in its task stay on the stock path, whichever begins first") {
    // Two tasks of four partitions on four cores: 13.2 s and 1.6 s of work, 3.7 s for each core.
    val bytes = Array(4, 4, 120, 4, 4, 4, 4, 4).map(_ * second / 10)
    Seq(Seq(0, 1, 2, 3, 4), Seq(2, 4, 3, 1, 0)).foreach { order =>
      val operator = new OperatorWork(cores = 4, maxLanes = 8)
      def batch(number: Long): Set[(Int, Int)] = {
        val attempt = StageAttempt(number, number.toInt, 0)
        val lanes =
          order.map(i => i -> operator.begin(attempt, i, Some(bytes), TaskRanges(8, 2), 2, 0, 0, 0L).get)
        lanes.foreach { case (i, n) => operator.ended(attempt, i, Some(n), bytes(i) / n) }
        lanes.toSet
      }
      assert(batch(0L).forall(_._2 == 1))
      assert(batch(1L).filter(_._2 > 1) == Set(2 -> 4), order)
    }
  }

  test("a task of many little partitions that begins last has no lanes: each would save next to nothing") {
    val operator = new OperatorWork(cores = 2, maxLanes = 8)
    // Two tasks of a second, of ten partitions each; the second one begins when the first is nearly done.
    val bytes = Array.fill(20)(second / 10)
    def batch(number: Long): Seq[Int] = {
      val attempt = StageAttempt(number, number.toInt, 0)
      def begin(partition: Int, nowNs: Long) =
        operator.begin(attempt, partition, Some(bytes), TaskRanges(20, 2), 2, 0, 0, nowNs).get
      val lanes = begin(0, 0L) +: (10 until 20).map(begin(_, second * 9 / 10))
      (0 +: (10 until 20)).zip(lanes).foreach { case (i, n) =>
        operator.ended(attempt, i, Some(n), bytes(i) / n)
      }
      lanes
    }
    assert((0L to 1L).flatMap(batch).forall(_ == 1))
  }
}
