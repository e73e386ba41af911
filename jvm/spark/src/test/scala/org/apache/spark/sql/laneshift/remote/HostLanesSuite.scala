package org.apache.spark.sql.laneshift.remote

import java.net.{URL, URLClassLoader}
import java.nio.ByteBuffer

import org.apache.spark.{TaskContext, TaskContextImpl}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

import laneshift.lane.LaneBudget
import laneshift.testing.LimitedSuite

class HostLanesSuite extends LimitedSuite {

  private def taskOf(query: Option[String]): TaskContextImpl = {
    val task = TaskContext.empty()
    query.foreach(task.getLocalProperties.setProperty(StreamExecution.QUERY_ID_KEY, _))
    task
  }

  test("a lane's body is read by the class loader of its own query's tasks, whichever task began last") {
    val lanes = new HostLanes(new LaneBudget(1))
    val thread = Thread.currentThread
    val own = thread.getContextClassLoader
    val one, two, newer = new URLClassLoader(Array.empty[URL], own)
    def begins(query: Option[String], loader: ClassLoader): Unit = {
      thread.setContextClassLoader(loader)
      try lanes.taskStarted(taskOf(query))
      finally thread.setContextClassLoader(own)
    }
    assert(lanes.loaderOf("one") eq own)
    begins(Some("one"), one)
    begins(Some("two"), two)
    begins(None, newer)
    assert((lanes.loaderOf("one") eq one) && (lanes.loaderOf("two") eq two))
    assert(lanes.loaderOf("three") eq own, "of which no task has run here: not another's")
    begins(Some("one"), newer)
    assert((lanes.loaderOf("one") eq newer) && (lanes.loaderOf("two") eq two))
  }

  test("who opens a session says of which query it is") {
    val session = Array[Byte](1, 2, 3)
    Messages.toHost(Messages.encode(ToHost.Open("a query", session))) match {
      case ToHost.Open(query, bytes) => assert(query == "a query" && bytes.sameElements(session))
      case other => fail(s"$other")
    }
    val cut = ByteBuffer.wrap("o".getBytes ++ Array[Byte](0, 0, 0, 9, 1))
    assert(intercept[IllegalArgumentException](Messages.toHost(cut)).getMessage.contains("9 bytes"))
  }
}
