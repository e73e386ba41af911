package org.apache.spark.sql.laneshift.driver

import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.laneshift.runtime.{ExecutorRequest, ExecutorView, PartitionCommand}

import laneshift.testing.LimitedSuite

/** Executors that run others' lanes, and need their cores for tasks. */
class HostWatchSuite extends LimitedSuite with ElasticSession {
  private def host(lanes: Int, tasks: Int) = ExecutorView.idle.copy(hostLanes = lanes, tasks = tasks)

  private def load(leaving: Boolean, view: ExecutorView) =
    ExecutorLoad("1", "host", 4, 1, leaving, Some(view))

  test("lanes of others go for which there is no core, and all of them where the executor leaves") {
    assert(load(leaving = false, host(3, 1)).surplusLanes == 0)
    assert(load(leaving = false, host(3, 3)).surplusLanes == 2)
    assert(load(leaving = false, host(1, 5)).surplusLanes == 1)
    assert(load(leaving = true, host(3, 1)).surplusLanes == 3)
  }

  test("a host that needs its cores gets them back, from who has most there, if it needs them twice") {
    spark // with which Spark begins
    val directory = new ExecutorDirectory
    val watch = new HostWatch(directory)
    val wanting = FakeQuery.views.take(2).zip(Seq(1, 4)).map { case (view, lanes) =>
      view.copy(wantedElsewhere = Seq("driver" -> lanes, "9" -> 5))
    }
    // In local mode Spark knows this one.
    val cores = spark.sparkContext.statusStore.executorList(activeOnly = true).head.totalCores
    def short(of: Int) = host(lanes = 5, tasks = cores - 5 + of)
    val crowded = new FakeExecutor("driver").register(directory)
    val home = new FakeExecutor("1", wanting).register(directory)
    def told = home.asked.collect { case request: ExecutorRequest.OfPartitions => request.commands }.flatten
      .collect { case leave: PartitionCommand.Leave => (leave.partition, leave.lanes) }
    crowded.said = short(of = 3)
    watch.look()
    assert(told.isEmpty)
    crowded.said = short(of = 0)
    watch.look()
    crowded.said = short(of = 4)
    watch.look()
    assert(told.isEmpty, "it was once only")
    crowded.said = short(of = 3)
    watch.look()
    // A fake one gives up two.
    assert(told == Seq(wanting(1).index -> 3, wanting.head.index -> 1))
  }
}
