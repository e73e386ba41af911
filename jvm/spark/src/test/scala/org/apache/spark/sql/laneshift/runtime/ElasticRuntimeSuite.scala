package org.apache.spark.sql.laneshift.runtime

import java.util.concurrent.TimeUnit

import org.apache.spark.sql.catalyst.expressions.{Literal, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.lane.{BatchStart, HostAddress, LaneTask, RemoteLanes}
import org.apache.spark.sql.laneshift.spec._
import org.apache.spark.sql.types.LongType
import org.apache.spark.util.{AccumulatorContext, AccumulatorMetadata, SizeEstimator}

import laneshift.ids.LaneId
import laneshift.lane._
import laneshift.testing.LimitedSuite

class ElasticRuntimeSuite extends LimitedSuite {

  test("a task without the plugin is told so; one that outlives it, that it has stopped") {
    val process = new ElasticRuntime.Holder
    def error() = intercept[IllegalStateException](process.get).getMessage
    assert(error().contains("must be in spark.plugins"))
    val first = process.start(cores = 2, lanes = 8, Nobody)
    assert(process.get eq first)
    process.stop()
    assert(error().contains("has stopped in this process") && !error().contains("spark.plugins"))
    val second = process.start(cores = 2, lanes = 8, Nobody)
    try assert((process.get eq second) && (second ne first))
    finally process.stop()
  }

  test("what an application that failed to start has left makes place for the next one") {
    val process = new ElasticRuntime.Holder
    val left = process.start(cores = 2, lanes = 8, Nobody)
    val next = process.start(cores = 2, lanes = 8, Nobody)
    try assert((process.get eq next) && left.isClosed && !next.isClosed)
    finally process.stop()
  }

  private def within[T](lanes: Int, driver: DriverMemory = Nobody)(body: ElasticRuntime => T): T = {
    val process = new ElasticRuntime.Holder
    try body(process.start(cores = 2, lanes, driver))
    finally process.stop()
  }

  private def spec(
      lanes: Int,
      handoff: HandoffMode = HandoffMode.BetweenBatches,
      batchId: Long = 0L
  ): ElasticSpec = {
    val options =
      ElasticOptions.from(new SQLConf)
        .copy(shards = 16, lanes = Some(lanes), remoteLanes = 8, remoteCacheBytes = 1L << 20)
    val key = OperatorKey("query", "00000000-0000-0000-0000-000000000001", 0L)
    ElasticSpec(
      OperatorSpec(key, "", batchId, realTime = false, handoff, 4, options, Nil, 4, remembered = true),
      Nil,
      Nil,
      Map.empty,
      Set.empty,
      StateMetrics(Set.empty, Set.empty, Set.empty, Set.empty),
      None,
      slots = 2,
      readsAhead = false,
      usesPython = false,
      commitsFirst = false
    )
  }

  test("beside row-wise work that has gone apart a partition has one lane, whatever its shuffles hold") {
    val auto = new AutoLanes(new Cores(2, new LaneBudget(8), () => 0.0))
    val one = spec(lanes = 1)
    def lanes(above: RowWork) =
      auto.begin(one.copy(operator = one.operator.copy(above = above)), 0, Nil, LoneTask()).map(_.lanes)
    // There are no shuffles here, which are asked as long as it was always so.
    assert(lanes(RowWork.Apart).isEmpty && lanes(RowWork.WithState).isEmpty)
    assert(lanes(RowWork.Apart).contains(1))
  }

  test("a partition takes little room before anything happens") {
    val (budget, clock) = (new LaneBudget(8), () => 0L)
    val shared = (new HandoffHistory(10), new Cores(2, budget, () => 0.0), spec(lanes = 1))
    def partitions(count: Int) = List.tabulate(count) { index =>
      new ElasticPartition(
        shared._3,
        index,
        shared._1,
        budget,
        shared._2,
        () => HostAddress("", "", 0),
        clock
      )
    }
    val all = partitions(1000)
    val each = (SizeEstimator.estimate(all) - SizeEstimator.estimate(shared)) / all.size
    assert(each < 30000L)
    all.foreach(_.view)
    assert((SizeEstimator.estimate(all) - SizeEstimator.estimate(shared)) / all.size < 30000L, "looked at")
  }

  /** A partition of a stage without state whose lanes are left to laneshift, on eight cores with nothing else to do; a source that has
    * much gives it as fast as there is room.
    *
    * @param startsMs how long a lane but the first starts, before its first row
    */
  private final class DealtPartition(msPerRow: Int, startsMs: Int = 0) {
    private var nowNs = 1L
    private val freeAtNs = new Array[Long](64)
    private val budget = new LaneBudget(64)
    private val cores = new Cores(8, budget, () => 0.5)
    private val of = {
      val dealt = spec(lanes = 1, HandoffMode.Dealt)
      val options = dealt.operator.options.copy(shards = 1, lanes = None)
      dealt.copy(operator = dealt.operator.copy(options = options, realTime = true))
    }
    private val partition =
      new ElasticPartition(
        of,
        0,
        new HandoffHistory(10),
        budget,
        cores,
        () => HostAddress("", "", 0),
        () => nowNs
      )
    private val deals = new Deals[Item](
      DealLimits(maxLanes = 64, rowBytes = 1L << 30, outputBytes = 1L << 30),
      DealWork.RowByRow,
      initialLanes = 1,
      () => new ArrayBlock(100),
      _ => (),
      () => nowNs
    )
    private val task = LoneTask()
    cores.taskStarted(task)
    partition.startBatch(of, task, None)
    private val lanesOf = new LaneTask { override def remote: RemoteLanes = RemoteLanes.None }
    partition.begun(lanesOf)
    partition.running(lanesOf, deals)

    /** So many other tasks begin. */
    def others(tasks: Int): Unit = (0 until tasks).foreach(_ => cores.taskStarted(LoneTask()))

    def offer(rows: Int): Unit = (0 until rows).foreach(i => deals.offer(Item(0, i.toLong), null))

    /** Half a second of work, after which so many rows come in; the lanes from then on. */
    def work(rows: Int): Int = {
      (0 until 500).foreach { _ =>
        nowNs += 1000000L
        deals.stats.active.filter(freeAtNs(_) <= nowNs).foreach { lane =>
          deals.take(LaneId(lane)) match {
            case Dealt.Rows(block) =>
              val startMs = if (lane > 0 && freeAtNs(lane) == 0L) startsMs else 0
              freeAtNs(lane) = nowNs + (startMs + block.rows * msPerRow) * 1000000L
            case other => fail(s"$other")
          }
        }
      }
      offer(rows)
      cores.look()
      partition.tick(nowNs)
      deals.stats.activeLanes
    }
  }

  test("lanes are judged by the rows that they take, not by those that come in and wait for one") {
    val partition = new DealtPartition(msPerRow = 1, startsMs = 4000)
    partition.offer(2000)
    val lanes = (0 until 40).map(half => partition.work(if (half == 0) 40000 else 4000))
    assert(lanes.drop(20).forall(_ == 8), lanes)
  }

  test("a lane whose first rows take long is no reason to wait with more lanes") {
    val partition = new DealtPartition(msPerRow = 2000)
    partition.offer(4000)
    val lanes = (0 until 40).map(_ => partition.work(rows = 0))
    assert(lanes.drop(10).forall(_ == 8), lanes)
  }

  test("lanes that start give cores back to tasks that begin meanwhile") {
    val partition = new DealtPartition(msPerRow = 1, startsMs = 100000)
    partition.offer(2000)
    val before = (0 until 10).map(_ => partition.work(rows = 4000))
    partition.others(tasks = 7)
    val after = (0 until 20).map(_ => partition.work(rows = 4000))
    assert(before.last == 8 && after.last == 1, before ++ after)
  }

  test("partitions that their operator does not have any more are let go")(within(lanes = 8) { runtime =>
    (0 until 4).foreach(runtime.partition(spec(lanes = 1), _, LoneTask()))
    runtime.letGo(runtime.all.map(_.lastTouchedNs).max)
    assert(runtime.all.size == 4)
    val (fewer, other) = (spec(lanes = 1, batchId = 1), OperatorKey("query", "another run", 0L))
    runtime.partition(spec(lanes = 1).copy(operator = fewer.operator.copy(key = other)), 3, LoneTask())
    runtime.all.foreach(p =>
      if (p.index == 0)
        p.startBatch(fewer.copy(operator = fewer.operator.copy(partitions = 2)), LoneTask(), None)
    )
    runtime.letGo(runtime.all.map(_.lastTouchedNs).max)
    assert(runtime.all.map(p => p.key.runId -> p.index).toSet == Set(
      fewer.key.runId -> 0,
      fewer.key.runId -> 1,
      other.runId -> 3
    ))
  })

  test("a partition is looked after until the last of its tasks is over")(within(lanes = 8) { runtime =>
    val (first, second) = (LoneTask(), LoneTask())
    val partition = runtime.partition(spec(lanes = 1), 0, first)
    runtime.partition(spec(lanes = 1), 0, second)
    first.markTaskCompleted(None)
    assert(runtime.computing == Set(partition))
    second.markTaskCompleted(None)
    assert(runtime.computing.isEmpty)
  })

  test("a task that starts when its run has ended leaves nothing behind")(within(lanes = 8) {
    runtime =>
      val early = runtime.partition(spec(lanes = 2), 0, LoneTask())
      runtime.forget(early.key.runId)
      assert(runtime.all.isEmpty)
      val task = LoneTask()
      val late = runtime.partition(spec(lanes = 2), 1, task)
      assert(runtime.all == Seq(late), "it runs for a moment")
      task.markTaskCompleted(None)
      assert(runtime.all.isEmpty)
  })

  test(
    "nor does one that is killed while it asks the driver for what was known of its partition"
  )(within(lanes = 8, Killing) { runtime =>
    runtime.forget(spec(lanes = 2).key.runId)
    val task = LoneTask()
    intercept[InterruptedException](runtime.partition(spec(lanes = 2), 0, task))
    task.markTaskCompleted(None)
    assert(runtime.all.isEmpty)
  })

  test(
    "lanes of all partitions together keep to the process's bound, and none is left out"
  )(within(lanes = 3) { runtime =>
    val tasks = IndexedSeq.fill(3)(LoneTask())
    def begin(partition: Int, task: Int): BatchStart = {
      val at = spec(lanes = 3)
      runtime.partition(at, partition, tasks(task)).startBatch(at, tasks(task), None)
    }
    assert((0 to 2).map(i => begin(i, i).lanes) == Seq(3, 2, 1))
    tasks(0).markTaskCompleted(None)
    val next = begin(2, 2)
    assert(next.lanes == 3 && next.routing.toSet == Set(0, 1, 2))
  })

  test(
    "lanes that are wanted on other executors are wanted wherever the partition goes, but for its own"
  ) {
    val one = new Process("1")
    val two = new Process("2")
    val three = HostAddress("3", "host", 3)
    try {
      def begun(process: Process, batchId: Long): ElasticPartition = {
        val at = spec(lanes = 2, HandoffMode.MidBatch, batchId)
        val partition = process.runtime.partition(at, 0, LoneTask())
        partition.startBatch(at, LoneTask(), None)
        partition
      }
      def wanted(partition: ElasticPartition) = partition.view.wantedElsewhere
      val first = begun(one, 0L)
      val asked = Map(HostAddress("2", "host", 2) -> 4, three -> 1)
      assert(one.runtime.setLanes(first.key, 0, 3, Some(asked)).nonEmpty)
      assert(wanted(first) == Seq("2" -> 4, "3" -> 1))
      one.runtime.setLanes(first.key, 0, 2, None)
      assert(wanted(first) == Seq("2" -> 4, "3" -> 1), "who says nothing of them leaves them")
      first.hostLate(three)
      val moved = begun(two, 1L)
      assert(wanted(moved) == Seq("3" -> 1) && moved.view.wantedLanes == 2)
      assert(moved.view.elsewhereNote.exists(_.contains("4 lanes")))
      assert(moved.leave("7", 1, "is leaving") == 0 && moved.leave("3", 4, "is leaving") == 1)
      assert(wanted(moved).isEmpty && moved.view.elsewhereNote.contains(s"$three is leaving"))
      two.runtime.setLanes(first.key, 0, 2, Some(Map.empty))
      val back = begun(one, 2L)
      assert(wanted(back).isEmpty && back.view.elsewhereNote.isEmpty, "its note was of another home")
    } finally Seq(one, two).foreach(_.stop())
  }

  /** An executor of a driver that remembers. */
  private final class Process(override val executorId: String) extends DriverMemory {
    private val holder = new ElasticRuntime.Holder
    val runtime: ElasticRuntime = holder.start(cores = 2, lanes = 8, this)
    def stop(): Unit = holder.stop()
    override def remember(key: OperatorKey, index: Int, memory: PartitionMemory): Unit =
      memories.remember(key, index, memory)
    override def recall(key: OperatorKey, index: Int): Option[PartitionMemory] =
      memories.recall(key, index)
    override def pressed(press: PartitionPressed): Unit = ()
  }

  private object memories {
    private var last = Option.empty[PartitionMemory]
    def remember(key: OperatorKey, index: Int, memory: PartitionMemory): Unit = last = Some(memory)
    def recall(key: OperatorKey, index: Int): Option[PartitionMemory] = last
  }

  test(
    "a host that is lost, or late too often, is not asked again before somebody says so"
  )(within(lanes = 8) { runtime =>
    val partition = runtime.partition(spec(lanes = 1), 0, LoneTask())
    val (near, far) = (HostAddress("1", "near", 1), HostAddress("2", "far", 2))
    def asked() = partition.startBatch(spec(lanes = 1), LoneTask(), None).elsewhere
    assert(asked().isEmpty)
    assert(partition.setLanes(1, Some(Map(near -> 2, far -> 1))) == Applied.NextBatch)
    assert(asked() == Map(near -> 2, far -> 1))
    partition.hostLost(near, "it is gone")
    assert(asked() == Map(far -> 1))
    assert(partition.view.elsewhereNote.exists(_.contains("executor 1")))
    (1 to 2).foreach(_ => partition.hostLate(far))
    assert(asked() == Map(far -> 1))
    partition.hostLate(far)
    assert(asked().isEmpty)
    partition.setLanes(1, Some(Map(far -> 1)))
    partition.hostLate(far)
    assert(asked() == Map(far -> 1))
  })

  test("shards stay on their lanes from batch to batch, wherever these are")(within(lanes = 8) {
    runtime =>
      val partition = runtime.partition(spec(lanes = 2), 0, LoneTask())
      partition.setLanes(2, Some(Map(HostAddress("1", "near", 1) -> 2)))
      def begin(): Unit = { partition.startBatch(spec(lanes = 2), LoneTask(), None); () }
      begin()
      val first = partition.route(Seq(0, 1, 8, 10)).toSeq
      assert(first.groupBy(identity).view.mapValues(_.size).toMap == Map(0 -> 4, 1 -> 4, 8 -> 4, 10 -> 4))
      begin()
      assert(partition.route(Seq(0, 1, 8, 9)).toSeq == first.map(lane => if (lane == 10) 9 else lane))
      begin()
      assert(partition.route(Seq(0, 1)).toSet == Set(0, 1))
  })

  test("a batch's work is that on its rows, however long its stores' commits took")(within(lanes = 8) {
    runtime =>
      def metric(): SQLMetric = {
        val made = new SQLMetric("timing", 0L)
        made.metadata = AccumulatorMetadata(AccumulatorContext.newId(), None, countFailedValues = false)
        made
      }
      val commit = metric()
      val at =
        spec(lanes = 1).copy(
          inputs = Seq(InputSpec(Seq(LongType), Literal(0))),
          stateMetrics = StateMetrics(Set.empty, Set.empty, Set.empty, Set(commit.id))
        )
      val partition = runtime.partition(at, 0, LoneTask())
      val task = LoneTask()
      partition.startBatch(at, task, None)
      val meter = partition.newMeter()
      val row = new UnsafeRow(1)
      row.pointTo(new Array[Byte](16), 16)
      val rows = meter.input(0, Iterator(row))
      val metrics = Seq("lanes", "rowsIn", "busiestLaneRows").map(_ -> metric()).toMap
      partition.stockBatch(task, meter.in, metrics)(rows).foreach(_ => ())
      val committedNs = TimeUnit.MILLISECONDS.toNanos(200L)
      Thread.sleep(200L)
      commit.set(200L)
      task.registerAccumulator(commit)
      task.markTaskCompleted(None)
      val last = partition.view.lastBatch.get
      assert(last.rows == 1L && last.lanes == 1 && last.busyNs >= 0L)
      assert(last.tookNs - last.busyNs >= committedNs, s"$last: the commit is no work")
  })

  private object Nobody extends Silent

  private object Killing extends Silent {
    override def recall(key: OperatorKey, index: Int): Option[PartitionMemory] =
      throw new InterruptedException
  }

  private class Silent extends DriverMemory {
    override def executorId: String = "nobody"
    override def remember(key: OperatorKey, index: Int, memory: PartitionMemory): Unit = ()
    override def recall(key: OperatorKey, index: Int): Option[PartitionMemory] = None
    override def pressed(press: PartitionPressed): Unit = ()
  }
}
