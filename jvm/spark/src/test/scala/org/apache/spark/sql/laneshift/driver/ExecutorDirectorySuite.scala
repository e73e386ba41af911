package org.apache.spark.sql.laneshift.driver

import scala.concurrent.duration._
import scala.jdk.CollectionConverters._

import com.codahale.metrics.MetricRegistry
import org.scalatest.concurrent.{Signaler, ThreadSignaler, TimeLimitedTests}
import org.scalatest.time.{Minutes, Span}

import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.laneshift.runtime.ExecutorView

import laneshift.testing.LimitedSuite

/** A driver whose executors do not all answer. */
class ExecutorDirectorySuite extends LimitedSuite with ElasticSession with TimeLimitedTests {
  // A test that waits for a silent executor waits for an hour.
  override val timeLimit: Span = Span(2, Minutes)
  override val defaultTestSignaler: Signaler = ThreadSignaler

  private def views = FakeQuery.views
  private def executorsIn(sites: Seq[PartitionSite]) = sites.map(_.executor.id).distinct.sorted

  test("who does not answer is left out, once waited for, and asked until it answers") {
    val directory = new ExecutorDirectory(1.hour)
    val well = new FakeExecutor("1", views.take(1)).register(directory)
    val ill = new FakeExecutor("2", views.drop(1)).register(directory)
    assert(executorsIn(directory.partitions()) == Seq("1", "2"))
    ill.mood = FakeExecutor.TimesOut
    assert(executorsIn(directory.partitions()) == Seq("1"))
    ill.mood = FakeExecutor.Silent
    assert(executorsIn(directory.partitions()) == Seq("1"))
    assert(directory.handoffs(10, None).isEmpty && directory.sourceRows().isEmpty)
    directory.limitSource("run", 1.0, 1.0)
    assert(ill.asked == well.asked && ill.asked.size == 6, "a silent one is asked, too")
    ill.answerAll()
    assert(executorsIn(directory.partitions()) == Seq("1", "2"))
  }

  test("the inventory has what executors say of their cores, and nothing to spare where they do not") {
    val directory = new ExecutorDirectory(1.hour)
    // The only one that Spark knows in local mode.
    val executor = new FakeExecutor("driver").register(directory)
    executor.said = ExecutorView.idle.copy(tasks = 1, rowsSent = 7L)
    spark // with which Spark begins
    def load = directory.inventory() match {
      case Seq(one) => one
      case other => fail(s"$other")
    }
    val cores = load.cores
    assert(load.id == "driver" && cores > 2 && !load.leaving && load.view == executor.said)
    assert(load.idleCores == cores - 1)
    assert(load.copy(leaving = true).idleCores == 0)
    executor.said = executor.said.copy(homeLanes = 2, hostLanes = cores)
    assert(load.idleCores == 0 && load.surplusLanes == 3)
    executor.mood = FakeExecutor.TimesOut
    assert(load.idleCores == 0 && load.surplusLanes == 0 && load.said.isEmpty)
  }

  test("its time is up for all requests together") {
    val directory = new ExecutorDirectory(1.milli)
    (1 to 3).foreach(i => new FakeExecutor(s"$i").register(directory).mood = FakeExecutor.Silent)
    assert(directory.partitions().isEmpty)
  }

  test("partitions that an operator does not have any more are not shown, whoever still has them") {
    assert(views.size > 2)
    val directory = new ExecutorDirectory
    val fewer = views.filter(_.index < 2).map(v =>
      v.copy(spec = v.spec.copy(batchId = v.spec.batchId + 1, partitions = 2))
    )
    new FakeExecutor("1", fewer).register(directory)
    new FakeExecutor("2", views).register(directory)
    val shown = directory.partitions().map(site => site.view.index -> site.executor.id).sorted
    assert(shown == Seq(0 -> "1", 1 -> "1"))
  }

  test("one asking serves all gauges of a scrape, also when an executor is silent") {
    // Longer than an answer stays recent.
    val state = new DriverState(_ => (), new ExecutorDirectory(700.millis))
    val well = new FakeExecutor("1", views).register(state.executors)
    val silent = new FakeExecutor("2").register(state.executors)
    silent.mood = FakeExecutor.Silent
    val registry = new MetricRegistry
    ApplicationMetrics.register(registry, state)
    val values = registry.getGauges.asScala.map { case (name, gauge) => name -> gauge.getValue }
    assert(values("application.partitions") == views.size.toDouble && values.size > 20)
    // One of each kind, but for a machine that stops in the middle of it.
    assert(well.asked.groupBy(identity).forall(_._2.size <= 3) && silent.asked == well.asked)
  }
}
