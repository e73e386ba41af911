package org.apache.spark.sql.laneshift.driver

import java.util.UUID

import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.laneshift.runtime.{ExecutorRequest, LaneWish, PartitionMemory}
import org.apache.spark.sql.laneshift.spec.TaskWish
import org.apache.spark.sql.streaming.StreamingQueryListener.{QueryStartedEvent, QueryTerminatedEvent}

import laneshift.testing.LimitedSuite

/** The runs of a driver that has had thousands of them. */
class RunsSuite extends LimitedSuite with ElasticSession {
  private val Others = 2 * Runs.Remembered

  private def id(number: Int): UUID = new UUID(0L, number.toLong)

  private def fresh() = new DriverState(_ => ()).runs

  private def start(runs: Runs, number: Int): Unit =
    runs.onOtherEvent(
      new QueryStartedEvent(
        id(number),
        id(number),
        s"q$number",
        "2026-01-01T00:00:00.000Z",
        Set.empty[String]
      )
    )

  private def end(runs: Runs, number: Int): Unit =
    runs.onOtherEvent(new QueryTerminatedEvent(id(number), id(number), None, None))

  test("a query that runs stays, however many others have come and gone since") {
    val runs = fresh()
    start(runs, 0)
    val first = runs.get(id(0).toString).get
    (1 to Others).foreach { n =>
      start(runs, n)
      end(runs, n)
    }
    assert(runs.all == Seq(first))
    val over =
      (Others - Runs.Remembered + 1 to Others).map(n => RunName(id(n).toString, id(n).toString, Some(s"q$n")))
    assert(runs.ended == over)
  }

  private def memory(batchId: Long, lanes: Int) =
    PartitionMemory(batchId, LaneWish(lanes, auto = false), Array.empty, Array.empty)

  test("what is known and wanted of a run ends with it, and what comes late changes nothing") {
    spark // with which Spark begins
    val executors = new ExecutorDirectory
    val executor = new FakeExecutor("1").register(executors)
    val runs = new DriverState(_ => (), executors).runs
    Seq(0, 1).foreach(start(runs, _))
    val run = runs.get(id(0).toString).get
    run.remember(3L, 1, memory(batchId = 7, lanes = 4))
    run.remember(3L, 1, memory(batchId = 6, lanes = 2))
    run.setTasks(3L, TaskWish.Exactly(2))
    assert(run.recall(3L, 1).map(_.wish.lanes).contains(4), "of two, that of the later batch stays")
    assert(run.knows(3L) && !run.knows(4L) && run.recall(3L, 0).isEmpty)
    assert(run.tasks(3L).contains(TaskWish.Exactly(2)) && run.tasks(4L).isEmpty)
    assert(runs.get(id(1).toString).exists(other => !other.knows(3L) && other.tasks(3L).isEmpty))
    run.remember(3L, 0, memory(batchId = 7, lanes = 1))
    run.begins(3L, partitions = 1)
    assert(run.recall(3L, 0).nonEmpty && run.recall(3L, 1).isEmpty, "its operator has one by now")
    end(runs, 0)
    assert(runs.get(id(0).toString).isEmpty && !run.active)
    assert(executor.asked == Seq(ExecutorRequest.Forget(id(0).toString)))
    // Neither an end that is told again nor one of a run that nobody has told of makes one.
    Seq(0, 9).foreach(end(runs, _))
    assert(runs.all.map(_.name) == Seq(Some("q1")))
    assert(runs.planned(spark, id(0)).isEmpty, "Spark has no such run")
  }
}
