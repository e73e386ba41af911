package org.apache.spark.sql.laneshift.driver

import java.net.{InetAddress, Socket}
import java.nio.file.{Files, Path}
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

import scala.util.Using

import org.scalatest.concurrent.Eventually._

import org.apache.spark.SparkConf
import org.apache.spark.sql.laneshift.{ElasticSession, Patience}

import laneshift.testing.{LimitedSuite, Spent}

import py4j.{DefaultGatewayServerListener, Py4JServerConnection}

class ControlProcessSuite extends LimitedSuite {

  private def made(command: Seq[String], settings: Map[String, Any] = Map.empty) = {
    Spent.one("processes")
    new ControlProcess(command, settings)
  }

  /** Runs an autoscaler that leaves a mark each time that it starts, and then says that its settings are wrong. */
  private def marked(settings: Map[String, Any])(body: (() => Long) => Unit): Unit =
    ElasticSession.withFolder { at: Path =>
      val mark = at.resolve("mark")
      val autoscaler = made(Seq("sh", "-c", s"echo >> '$mark'; exit 2"), settings)
      autoscaler.start()
      try body(() => if (Files.exists(mark)) Files.size(mark) else 0L)
      finally autoscaler.stop()
    }

  test("it is started again when the driver fails to follow it") {
    val failing = new ControlProcessSuite.FailsOnce
    marked(Map("of" -> failing)) { marks =>
      eventually(assert(marks() == 1L))(Patience.long, implicitly, implicitly)
      assert(failing.failed)
    }
  }

  test("it ends with what the plugin knows of the application") {
    ElasticSession.withFolder { at: Path =>
      val (began, ended) = (at.resolve("began"), at.resolve("ended"))
      val process = made(Seq("sh", "-c", s"echo > '$began'; cat; echo > '$ended'"))
      val state = new DriverState(_ => ())
      state.start(process)
      try {
        eventually(assert(Files.exists(began)))(Patience.long, implicitly, implicitly)
        state.stop()
        assert(Files.exists(ended))
      } finally process.stop()
    }
  }

  test("a process that has ended says why, and what to install if a package is missing") {
    def why(line: String) = ControlProcess.why("/opt/py", line)
    val found = "/opt/py: Error while finding module specification for 'laneshift.control.process' " +
      "(ModuleNotFoundError: No module named 'laneshift')"
    Seq(found -> "laneshift", "ModuleNotFoundError: No module named 'google.rpc'" -> "google").foreach {
      case (line, name) =>
        Seq(
          s"/opt/py has no package $name.",
          "Install laneshift's wheel with [control] into it",
          "autoscaler.python"
        )
          .foreach(words => assert(why(line).contains(words)))
    }
    assert(why("MemoryError") == " (MemoryError)")
    assert(why("") == "" && why("warning: told already") == "")
  }

  test("it runs in the driver's Python, unless that is a notebook") {
    def python(variables: (String, String)*) =
      ControlProcess.python(new SparkConf(false), variables.toMap.get)
    assert(python("PYSPARK_DRIVER_PYTHON" -> "/opt/py3", "PYSPARK_PYTHON" -> "/opt/worker") == "/opt/py3")
    Seq("jupyter", "/opt/bin/ipython3").foreach { notebook =>
      assert(python("PYSPARK_DRIVER_PYTHON" -> notebook, "PYSPARK_PYTHON" -> "/opt/worker") == "/opt/worker")
      assert(python("PYSPARK_DRIVER_PYTHON" -> notebook) == "python3")
    }
  }

  test("what it is answered does not wait for an acknowledgement of the first piece") {
    val process = made(Seq("cat"))
    val connected = new ControlProcessSuite.Connected
    process.server.addListener(connected)
    process.start()
    try {
      eventually(assert(process.server.getListeningPort > 0))(Patience.long, implicitly, implicitly)
      Using.resource(new Socket(InetAddress.getLoopbackAddress, process.server.getListeningPort)) { _ =>
        val socket = connected.sockets.poll(20, TimeUnit.SECONDS)
        assert(socket != null && socket.getTcpNoDelay)
      }
    } finally process.stop()
  }
}

object ControlProcessSuite {

  /** The server's ends of its connections. */
  final class Connected extends DefaultGatewayServerListener {
    val sockets = new LinkedBlockingQueue[Socket]

    override def connectionStarted(connection: Py4JServerConnection): Unit = sockets.put(connection.getSocket)
  }

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
