package org.apache.spark.sql.laneshift.driver

import java.util.UUID
import java.util.concurrent.LinkedBlockingQueue

import scala.concurrent.duration._

import org.scalatest.concurrent.{Signaler, ThreadSignaler, TimeLimitedTests}
import org.scalatest.time.{Minutes, Span}

import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.laneshift.runtime.ExecutorRequest
import org.apache.spark.sql.streaming.StreamingQueryListener.{QueryStartedEvent, QueryTerminatedEvent}

import laneshift.testing.LimitedSuite

/** The journal of a driver whose executor is silent, or whose looks fail. */
class JournalSuite extends LimitedSuite with ElasticSession with TimeLimitedTests {
  // A test that waits for a silent executor waits for an hour.
  override val timeLimit: Span = Span(2, Minutes)
  override val defaultTestSignaler: Signaler = ThreadSignaler

  private def withJournal(everyMs: Long)(
      body: (DriverState, FakeExecutor, LinkedBlockingQueue[SparkListenerEvent]) => Unit
  ): Unit = {
    val posted = new LinkedBlockingQueue[SparkListenerEvent]
    val executors = new ExecutorDirectory(1.hour)
    val executor = new FakeExecutor("1", FakeQuery.views).register(executors)
    val driver = new DriverState(e => { posted.put(e); () }, executors, lookMs = everyMs)
    driver.runs.onOtherEvent(FakeQuery.started)
    driver.runs.all.foreach(_.becomesElastic())
    try body(driver, executor, posted)
    finally driver.looks.stop()
  }

  private def errors = Iterator(
    new NoClassDefFoundError("a"),
    new StackOverflowError,
    new OutOfMemoryError("not really"),
    new InterruptedException,
    new IllegalStateException("b")
  )

  private def partitionsOf(event: SparkListenerEvent): Seq[Int] = event match {
    case sample: LaneshiftSample => sample.queries.flatMap(_.operators).map(_.partitions.size)
    case other => fail(s"not a sample: $other")
  }

  test("nobody but the look waits for a silent executor: not who reads the journal, not the listener queue") {
    withJournal(everyMs = 3600000L) { (driver, executor, posted) =>
      executor.mood = FakeExecutor.Silent
      driver.runs.onOtherEvent(FakeQuery.terminated)
      assert(driver.journal.recent.isEmpty && posted.isEmpty)
      assert(driver.runs.all.isEmpty)
      assert(executor.asked.head == ExecutorRequest.Partitions, "asked before it is told to forget")
      assert(executor.asked.last == ExecutorRequest.Forget(FakeQuery.views.head.spec.key.runId))
      executor.answerAll()
      assert(partitionsOf(posted.take()) == Seq(FakeQuery.views.size), "the query is seen whole once more")
    }
  }

  test("a run's last sample has the partitions of that run, and of others the sums") {
    val ending = new UUID(0L, 7L)
    val views = FakeQuery.views
    val key = views.head.spec.key.copy(queryId = ending.toString, runId = ending.toString)
    val ended = views.map(v => v.copy(spec = v.spec.copy(key = key)))
    val posted = new LinkedBlockingQueue[SparkListenerEvent]
    val executors = new ExecutorDirectory(1.hour)
    new FakeExecutor("1", views ++ ended).register(executors)
    val driver = new DriverState(e => { posted.put(e); () }, executors, lookMs = 3600000L)
    driver.runs.onOtherEvent(FakeQuery.started)
    def live(): Map[String, Int] = {
      driver.runs.onOtherEvent(
        new QueryStartedEvent(ending, ending, "ending", "2026-01-01T00:00:00.000Z", Set.empty[String])
      )
      driver.runs.all.foreach(_.becomesElastic())
      driver.runs.onOtherEvent(new QueryTerminatedEvent(ending, ending, None, None))
      posted.take() match {
        case sample: LaneshiftSample =>
          sample.queries.map(q => q.runId -> q.operators.map(_.partitions.size).sum).toMap
        case other => fail(s"not a sample: $other")
      }
    }
    val (whole, other) = (views.size, views.head.spec.key.runId)
    try {
      assert(live() == Map(other -> whole, ending.toString -> whole), "the first one is whole")
      assert(live() == Map(other -> 0, ending.toString -> whole))
    } finally driver.looks.stop()
  }

  test("metrics that are asked for when the application has ended ask no executor") {
    withJournal(everyMs = 3600000L) { (driver, executor, _) =>
      assert(driver.looks.newest.sites.nonEmpty)
      driver.looks.stop()
      val asked = executor.asked.size
      assert(driver.looks.newest.sites.nonEmpty && executor.asked.size == asked)
    }
  }

  test("the newest samples can be read while a look waits") {
    withJournal(everyMs = 1L) { (driver, executor, posted) =>
      posted.take()
      executor.mood = FakeExecutor.Silent
      val before = executor.asked.size
      while (executor.asked.size == before) Thread.sleep(1)
      assert(driver.journal.recent.nonEmpty)
    }
  }

  test("looks go on after Errors and Exceptions") {
    for (error <- errors)
      withJournal(everyMs = 1L) { (_, executor, posted) =>
        posted.take()
        executor.mood = FakeExecutor.Throws(error)
        val before = executor.asked.size
        while (executor.asked.size < before + 3) Thread.sleep(1)
        executor.mood = FakeExecutor.Answers
        posted.clear()
        posted.take()
      }
  }

  test("a run's last sample that fails is not the last one; once the application has ended there is none") {
    val left = errors
    val posted = new LinkedBlockingQueue[SparkListenerEvent]
    val executors = new ExecutorDirectory(1.hour)
    new FakeExecutor("1", FakeQuery.views).register(executors)
    val post = (event: SparkListenerEvent) => if (left.hasNext) throw left.next() else posted.put(event)
    val driver = new DriverState(post, executors, lookMs = 3600000L)
    def live(): Unit = {
      driver.runs.onOtherEvent(FakeQuery.started)
      driver.runs.all.foreach(_.becomesElastic())
      driver.runs.onOtherEvent(FakeQuery.terminated)
      assert(driver.runs.all.isEmpty)
    }
    try {
      errors.foreach(_ => live())
      live()
      posted.take()
    } finally driver.looks.stop()
    live()
    assert(posted.isEmpty)
  }
}
