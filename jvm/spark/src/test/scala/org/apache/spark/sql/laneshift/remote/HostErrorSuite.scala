package org.apache.spark.sql.laneshift.remote

import org.apache.spark.SparkException
import org.apache.spark.memory.SparkOutOfMemoryError
import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.laneshift.lane.HostAddress

import laneshift.testing.LimitedSuite

class HostErrorSuite extends LimitedSuite with ElasticSession {

  private def atHome(error: Throwable): Throwable = {
    assert(spark.version.nonEmpty, "Spark's serializer")
    HostError.read(HostError.write(error), HostAddress("2", "there", 1))
  }

  /** Each has caused the other. */
  private def circle: Throwable = {
    val (one, two) = (new RuntimeException("planted"), new RuntimeException("two"))
    one.initCause(two)
    two.initCause(one)
    one
  }

  test("home gets no error that would end its executor, but what it says") {
    Seq(
      new OutOfMemoryError("planted"),
      new RuntimeException("outer", new RuntimeException("planted", new OutOfMemoryError("heap"))),
      new InternalError("planted")
    ).foreach { error =>
      assert(HostError.isFatal(error))
      val read = atHome(error)
      assert(!HostError.isFatal(read) && read.getCause == null, read)
      assert(read.isInstanceOf[SparkException] && read.getMessage.contains(error.toString), read)
    }
  }

  test("any other error is what it was") {
    Seq(
      new IllegalStateException("planted"),
      new SparkOutOfMemoryError(
        "UNABLE_TO_ACQUIRE_MEMORY",
        java.util.Map.of("requestedBytes", "1", "receivedBytes", "0")
      ),
      new NoClassDefFoundError("planted"),
      circle
    ).foreach { error =>
      assert(!HostError.isFatal(error), error)
      val read = atHome(error)
      assert(read.getClass == error.getClass && read.getMessage == error.getMessage, read)
    }
  }
}
