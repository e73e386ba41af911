package org.apache.spark.sql.laneshift.driver

import java.nio.file.{Files, Path}

import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.laneshift.{ElasticSession, Patience}

class SchedulerProcessSuite extends AnyFunSuite {

  /** Runs a scheduler that leaves a mark each time that it starts, and then says that its settings are wrong. */
  private def marked(settings: Map[String, Any])(body: (() => Long) => Unit): Unit =
    ElasticSession.withFolder { at: Path =>
      val mark = at.resolve("mark")
      val scheduler = new SchedulerProcess(Seq("sh", "-c", s"echo >> '$mark'; exit 2"), settings)
      scheduler.start()
      try body(() => if (Files.exists(mark)) Files.size(mark) else 0L)
      finally scheduler.stop()
    }

  test("it is started again when the driver fails to follow it") {
    val failing = new SchedulerProcessSuite.FailsOnce
    marked(Map("of" -> failing)) { marks =>
      eventually(assert(marks() == 1L))(Patience.long, implicitly, implicitly)
      assert(failing.failed)
    }
  }
}

object SchedulerProcessSuite {
  final class FailsOnce {
    @volatile var failed = false

    def getName: String = {
      if (!failed) {
        failed = true
        throw new NoClassDefFoundError("for a moment")
      }
      "well"
    }
  }
}
