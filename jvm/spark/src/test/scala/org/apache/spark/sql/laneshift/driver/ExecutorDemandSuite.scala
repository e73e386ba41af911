package org.apache.spark.sql.laneshift.driver

import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.laneshift.runtime.ExecutorView

import laneshift.testing.LimitedSuite

/** Executors that an autoscaler asks for and gives back, on a cluster that does as a test wants. */
class ExecutorDemandSuite extends LimitedSuite with ElasticSession {
  private final class Cluster(var ids: Seq[String], var atStart: Option[Int] = None)
      extends ClusterExecutors {
    var impossible = Option.empty[String]
    var dynamicAllocation = false
    var most = 3
    val restMs = 60000L
    var requests = Seq.empty[Int]
    var ended = Seq.empty[String]
    var refuses = false
    var output = Set.empty[String]
    var blocks = Set.empty[String]
    var slots = 0
    var closed = Seq.empty[String]
    override def request(total: Int): Boolean = { requests :+= total; true }
    override def giveBack(id: String): Boolean = { if (!refuses) ended :+= id; !refuses }
    override def keepsOutput(id: String): Boolean = output(id)
    override def keepsBlock(id: String): Boolean = blocks(id)
    override def slotsWithout(ids: Set[String]): Int = if (ids("driver")) slots else 99
    override def close(id: String): Boolean = { if (!refuses) closed :+= id; !refuses }
  }

  /** Executor 0 was there first. The one that was asked for is `driver`, the only one that Spark knows in local mode. */
  private final class Setting(cluster: Cluster) {
    spark // with which Spark begins
    private var running = 0
    val directory = new ExecutorDirectory(running = () => Map("driver" -> running))
    var driving = Set("s")
    var now = 0L
    var said = Seq.empty[String]
    val demand = new ExecutorDemand(
      directory,
      id => driving(id),
      text => said :+= text,
      cluster
    )
    var host: FakeExecutor = new FakeExecutor("driver").register(directory)
    def turn(total: Int = 0, back: Seq[String] = Nil, by: String = "s"): DemandView =
      demand.turn(by, 0, total, back)
    def looks(n: Int): Unit =
      (1 to n).foreach(_ => if (demand.mayGiveBack()) demand.look(directory.look(), now))
    def load: ExecutorLoad = directory.inventory().head

    /** Spark's task on it. */
    def begins(): Unit = running += 1
    def ends(): Unit = running -= 1

    /** One has come that was asked for. */
    def come(): this.type = {
      turn()
      turn(total = 2)
      cluster.ids :+= "driver"
      assert(turn().asked == Seq("driver") && load.asked && !load.leaving)
      this
    }
  }

  test("who is there before the first request stays, who comes after it was asked for") {
    val cluster = new Cluster(Seq("0", "1"))
    val setting = new Setting(cluster)
    assert(!setting.demand.needsLooks && !setting.demand.mayGiveBack())
    assert(setting.turn() == DemandView(3, 60000L, None, 2, 2, 2, Nil))
    assert(setting.demand.needsLooks && !setting.demand.mayGiveBack(), "nobody is there to be given back")
    cluster.ids :+= "2" // late, but before anybody has asked
    assert(setting.turn().atStart == 3)
    cluster.ids = Seq("0", "1")
    assert(setting.turn(total = 9).requested == 3 && cluster.requests == Seq(3), "the most is the most")
    cluster.ids = Seq("0", "1", "7")
    assert(setting.turn() == DemandView(3, 60000L, None, 3, 3, 2, Seq("7")))
    cluster.ids = Seq("1", "7", "8")
    assert(setting.turn().asked == Seq("7"), "8 is in the place of 0")
  }

  test("the configuration says how many there are at the start, whoever has come already") {
    val cluster = new Cluster(Seq("10", "9", "8"), Some(1))
    val setting = new Setting(cluster)
    assert(setting.turn().asked == Seq("9", "10"), "the oldest one stays")
    val early = new Setting(new Cluster(Nil, Some(2)))
    assert(early.turn() == DemandView(3, 60000L, None, 0, 2, 2, Nil))
    assert(early.turn(total = 1).requested == 2, "those of the start are not called off")
  }

  test("what cannot be is refused or said") {
    val cluster = new Cluster(Seq("0", "1", "2", "3"))
    val setting = new Setting(cluster)
    assert(intercept[WrongDemand](setting.turn()) == WrongDemand(3, 4, dynamicAllocation = false))
    cluster.ids = Seq("0")
    cluster.dynamicAllocation = true
    assert(intercept[WrongDemand](setting.turn()).dynamicAllocation)
    cluster.dynamicAllocation = false
    cluster.impossible = Some("none here")
    assert(setting.turn(total = 2).why.contains("none here"))
    cluster.impossible = None
    cluster.most = 0
    assert(setting.turn(total = 2).most == 0)
    assert(cluster.requests.isEmpty)
    // In the local mode of this session.
    val here = new SparkExecutors
    assert(here.impossible.exists(_.contains("local[")) && here.ids.isEmpty && !here.request(3))
    assert(!here.giveBack("driver") && !here.keepsOutput("driver") && !here.keepsBlock("driver"))
    assert(!here.dynamicAllocation && !here.close("driver") && here.slotsWithout(Set("driver")) == 0)
  }

  test("one autoscaler at a time asks, and who drives nothing only looks") {
    val cluster = new Cluster(Seq("0"))
    val setting = new Setting(cluster)
    setting.turn(total = 2, by = "dry")
    assert(cluster.requests.isEmpty)
    setting.turn(total = 2)
    setting.driving = Set("s", "t")
    assert(setting.turn(total = 3, by = "t").why.exists(_.contains("another autoscaler")))
    setting.driving = Set("t")
    setting.turn(total = 3, by = "t")
    assert(cluster.requests == Seq(2, 3))
  }

  test("an executor goes once nothing was on it at two looks, and nobody gets lanes there meanwhile") {
    val cluster = new Cluster(Seq("0"))
    val setting = new Setting(cluster).come()
    setting.host.said = ExecutorView.idle.copy(hostLanes = 1)
    setting.turn(back = Seq("driver", "0", "5"))
    assert(setting.load.leaving && setting.load.surplusLanes == 1, "lanes go first")
    setting.looks(5)
    assert(cluster.ended.isEmpty, "a lane was there")
    setting.host.said = ExecutorView.idle
    setting.looks(1)
    assert(cluster.ended.isEmpty, "one look is chance")
    setting.looks(1)
    assert(cluster.ended == Seq("driver"))
    setting.looks(3)
    assert(cluster.ended == Seq("driver") && setting.directory.inventory().isEmpty, "nobody asks it any more")
    assert(setting.turn() == DemandView(3, 60000L, None, 1, 1, 1, Nil))
    assert(setting.said == Seq("executor driver is given back: nothing was on it"))
    cluster.ids = Seq("0")
    assert(setting.turn().there == 1)
  }

  test("an executor stays that somebody wants lanes on") {
    val cluster = new Cluster(Seq("0"))
    val setting = new Setting(cluster).come()
    val wanting = FakeQuery.views.take(1).map(_.copy(wantedElsewhere = Seq("driver" -> 1)))
    new FakeExecutor("0", wanting).register(setting.directory)
    setting.turn(back = Seq("driver"))
    setting.looks(5)
    assert(cluster.ended.isEmpty && setting.load.leaving)
  }

  test("an executor stays, and may have lanes again, that Spark has come to use") {
    def stays(what: String)(use: (Cluster, Setting) => Unit): Unit = {
      val cluster = new Cluster(Seq("0"))
      val setting = new Setting(cluster).come()
      setting.turn(back = Seq("driver"))
      setting.looks(1)
      use(cluster, setting)
      setting.looks(2)
      assert(cluster.ended.isEmpty && !setting.load.leaving, what)
      assert(setting.said.size == 1 && setting.said.head.startsWith("executor driver stays: "))
      assert(setting.turn().asked == Seq("driver"))
    }
    stays("a task") { (_, setting) =>
      setting.begins()
    }
    stays("a partition") { (_, setting) =>
      new FakeExecutor("driver", FakeQuery.views.take(1)).register(setting.directory)
      ()
    }
    stays("shuffle output")((cluster, _) => cluster.output = Set("driver"))
    stays("a cached block")((cluster, _) => cluster.blocks = Set("driver"))
    stays("it does not answer")((_, setting) => setting.host.mood = FakeExecutor.TimesOut)
    stays("a task that has begun in between")((cluster, _) => cluster.refuses = true)
  }

  test("one that Spark uses in every batch gets no more tasks once the others have slots for all, and goes") {
    val cluster = new Cluster(Seq("0"))
    val setting = new Setting(cluster).come()
    setting.begins()
    def wish(): Unit = { setting.turn(back = Seq("driver")); setting.looks(1) }
    setting.looks(ExecutorDemand.Remembered)
    wish()
    assert(cluster.closed.isEmpty && !setting.load.leaving, "the others have no slot for its task")
    cluster.slots = 1
    cluster.refuses = true
    wish()
    assert(cluster.closed.isEmpty && !setting.load.leaving, "Spark would end its tasks")
    cluster.refuses = false
    wish()
    setting.looks(5)
    assert(cluster.closed == Seq("driver") && cluster.ended.isEmpty && setting.load.leaving)
    setting.ends()
    cluster.output = Set("driver")
    setting.host.said = ExecutorView.idle.copy(hostLanes = 1)
    setting.looks(5)
    cluster.output = Set.empty
    setting.looks(5)
    setting.host.said = ExecutorView.idle
    setting.host.mood = FakeExecutor.TimesOut
    setting.looks(1)
    assert(
      cluster.ended.isEmpty && setting.load.leaving,
      "it has output of a job, then a lane, then says nothing"
    )
    setting.host.mood = FakeExecutor.Answers
    cluster.refuses = true
    setting.looks(3)
    assert(cluster.ended.isEmpty && setting.load.leaving, "Spark did not end it")
    cluster.refuses = false
    setting.looks(2)
    assert(cluster.closed == Seq("driver") && cluster.ended == Seq("driver"))
    val notes = setting.said.map(_.split(' ').slice(2, 5).mkString(" "))
    assert(notes == Seq("stays: Spark has", "stays: Spark has", "gets no more", "is given back:"))
  }

  test("tasks that were there a moment ago need slots, too") {
    val cluster = new Cluster(Seq("0"))
    val setting = new Setting(cluster).come()
    setting.begins()
    setting.begins()
    setting.looks(ExecutorDemand.Remembered)
    setting.ends()
    cluster.slots = 1
    setting.turn(back = Seq("driver"))
    setting.looks(1)
    assert(cluster.closed.isEmpty && !setting.load.leaving, "two ran in the last half minute")
    setting.looks(ExecutorDemand.Remembered)
    setting.turn(back = Seq("driver"))
    setting.looks(1)
    assert(cluster.closed == Seq("driver"))
  }

  test("without an autoscaler executors go that have had nothing to do for the time of rest") {
    val cluster = new Cluster(Seq("0"))
    val setting = new Setting(cluster).come()
    setting.driving = Set.empty
    setting.host.said = ExecutorView.idle.copy(hostLanes = 1)
    setting.looks(1)
    setting.now = 100000L
    setting.looks(3)
    assert(!setting.load.leaving, "queries keep their lanes")
    setting.host.said = ExecutorView.idle
    setting.looks(1)
    setting.now = 159000L
    setting.looks(1)
    assert(!setting.load.leaving)
    setting.now = 160000L
    setting.looks(3)
    assert(cluster.ended == Seq("driver"))
  }

  test("an autoscaler that comes in time keeps them") {
    val cluster = new Cluster(Seq("0"))
    val setting = new Setting(cluster).come()
    setting.driving = Set.empty
    setting.looks(1)
    setting.driving = Set("next")
    assert(setting.turn(by = "next").asked == Seq("driver"))
    setting.now = 100000L
    setting.looks(3)
    assert(cluster.ended.isEmpty)
  }

  test("who was never asked for by number is asked for before one goes: Spark counts down from that") {
    val cluster = new Cluster(Seq("0", "driver"), Some(1))
    val setting = new Setting(cluster)
    setting.turn()
    setting.turn(back = Seq("driver"))
    setting.looks(2)
    assert(cluster.requests == Seq(2) && cluster.ended == Seq("driver"))
  }
}
