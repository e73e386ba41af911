package org.apache.spark.sql.laneshift.driver

import java.io.{BufferedReader, File, InputStreamReader, IOException}
import java.net.InetAddress
import java.nio.charset.StandardCharsets.UTF_8
import java.security.SecureRandom
import java.util.concurrent.TimeUnit
import javax.net.SocketFactory

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import org.apache.spark.sql.laneshift.conf.LaneshiftConf

import py4j.{CallbackClient, DefaultGatewayServerListener, GatewayServer, Py4JServerConnection}

/** The policy of `spark.sql.laneshift.autoscaler`, and the control service of `spark.sql.laneshift.control.port`, in a Python
  * process beside the driver that calls the gateway by py4j, as a session's own Python does.
  *
  * Queries never wait for it. If it ends, it is started again, later and later; if its settings are wrong (exit code 2),
  * it is not. It ends with the driver, however that ends: its standard input closes.
  */
private[laneshift] final class ControlProcess(command: Seq[String], settings: Map[String, Any])
    extends Logging {
  private val token = {
    val bytes = new Array[Byte](32)
    new SecureRandom().nextBytes(bytes)
    bytes.map("%02x".format(_)).mkString
  }
  private[driver] val server = new GatewayServer.GatewayServerBuilder()
    .javaAddress(InetAddress.getLoopbackAddress)
    .javaPort(0)
    .authToken(token)
    .callbackClient(ControlProcess.noCallbacks(token))
    .build()
  server.addListener(ControlProcess.Prompt)
  private var process: Option[Process] = None
  @volatile private var stopping = false

  /** The last line that it has said: of a process that fails without a word of ours, why. */
  @volatile private var lastSaid = ""

  def start(): Unit = {
    // Whose server's threads are daemons, too: an application that never stops its session would not end otherwise.
    val thread = new Thread(() => serve(), "laneshift control process")
    thread.setDaemon(true)
    thread.start()
  }

  def stop(): Unit = {
    val running = synchronized {
      stopping = true
      process
    }
    running.foreach { p =>
      p.getOutputStream.close()
      if (!p.waitFor(2, TimeUnit.SECONDS)) p.destroyForcibly()
    }
    server.shutdown()
  }

  private def serve(): Unit = {
    synchronized(if (!stopping) server.start())
    supervise()
  }

  private def supervise(): Unit = {
    var waitS = 1L
    while (!stopping) {
      val begun = System.nanoTime()
      val ended =
        try run()
        catch {
          // What a while later may not happen again: only who cannot be started at all is given up.
          case error: Throwable =>
            logError("laneshift cannot follow its control process.", error)
            synchronized(process).foreach(_.destroyForcibly())
            ControlProcess.Lost
        }
      if (ended == ControlProcess.WrongSettings && !stopping) {
        val what =
          if (settings.contains("control")) "an autoscaler and a control service" else "an autoscaler"
        logError(s"laneshift goes on without $what, for what was said before: queries keep their lanes.")
        stopping = true
      } else if (!stopping) {
        if (System.nanoTime() - begun > TimeUnit.MINUTES.toNanos(1)) waitS = 1L
        logWarning(
          s"laneshift's control process has ended with code $ended${ControlProcess.why(command.head, lastSaid)}; queries keep their lanes. It starts again in $waitS s."
        )
        Thread.sleep(1000L * waitS)
        waitS = math.min(60L, 2 * waitS)
      }
    }
  }

  /** Runs the process to its end, what it says going to the log. */
  private def run(): Int = {
    val builder = new ProcessBuilder(command: _*).redirectErrorStream(true)
    val about = new java.util.LinkedHashMap[String, Any]
    (settings + ("port" -> server.getListeningPort) + ("token" -> token)).foreach { case (k, v) =>
      about.put(k, v)
    }
    // Not on the command line, which other users of the machine can read.
    builder.environment().put(ControlProcess.Variable, new ObjectMapper().writeValueAsString(about))
    val started = synchronized {
      process = None
      if (!stopping) process = start(builder)
      process
    }
    started.fold(ControlProcess.WrongSettings) { p =>
      val lines = new BufferedReader(new InputStreamReader(p.getInputStream, UTF_8))
      lastSaid = ""
      Iterator.continually(lines.readLine()).takeWhile(_ != null).foreach(tell)
      p.waitFor()
    }
  }

  /** PySpark's sessions show warnings, and nothing below. */
  private def tell(line: String): Unit = {
    if (line.startsWith(ControlProcess.Warning))
      logWarning(s"control process: ${line.stripPrefix(ControlProcess.Warning)}")
    else logInfo(s"control process: $line")
    if (line.nonEmpty) lastSaid = line
  }

  private def start(builder: ProcessBuilder): Option[Process] =
    try Some(builder.start())
    catch {
      case error: IOException =>
        logError(
          s"laneshift's control process cannot be started by ${command.mkString(" ")}: ${error.getMessage}. Name a Python that has " +
            s"laneshift by ${LaneshiftConf.AutoscalerPython.key}."
        )
        None
    }
}

private[laneshift] object ControlProcess {
  private val Variable = "LANESHIFT_CONTROL"
  private val WrongSettings = 2
  private val Lost = -1

  /** What a line of the process begins with if it is a warning: `warn` in control/log.py. */
  private val Warning = "warning: "

  /** How Python ends that does not find a package. */
  private val Missing = """.*ModuleNotFoundError: No module named '([^'.]+).*""".r

  /** Why a process of this Python has failed whose last line was this: nothing if that was a warning, which is in the log already. */
  private[driver] def why(python: String, line: String): String = line match {
    case Missing(name) =>
      s": $python has no package $name. Install laneshift's wheel with [control] into it, " +
        s"or name a Python that has it by ${LaneshiftConf.AutoscalerPython.key}"
    case said if said.isEmpty || said.startsWith(Warning) => ""
    case said => s" ($said)"
  }

  /** py4j writes an answer in pieces of 8 kB: without this the second waits 40 ms for the first one's acknowledgement. */
  private object Prompt extends DefaultGatewayServerListener {
    override def connectionStarted(connection: Py4JServerConnection): Unit =
      try connection.getSocket.setTcpNoDelay(true)
      catch { case _: IOException => () } // it has ended already
  }

  /** For a server that never calls Python: the usual client has a thread, no daemon, that looks for idle connections. */
  private def noCallbacks(token: String): CallbackClient = new CallbackClient(
    GatewayServer.DEFAULT_PYTHON_PORT,
    InetAddress.getLoopbackAddress,
    token,
    0L,
    TimeUnit.SECONDS,
    SocketFactory.getDefault,
    false,
    0
  )

  /** The process that the configuration asks for, not started yet: for a policy, the control service, or both. */
  def wanted(conf: SparkConf, tenants: Tenants): Option[ControlProcess] = {
    val policy = conf.get(LaneshiftConf.Autoscaler)
    val control = ControlSettings.taken(conf, tenants)
    if (policy == "none" && control.isEmpty) None
    else {
      val settings = Map[String, Any](
        "policy" -> policy,
        "target_latency_ms" -> conf.get(LaneshiftConf.AutoscalerTargetLatency),
        "interval_s" -> conf.get(LaneshiftConf.AutoscalerInterval) / 1000.0,
        "query" -> conf.get(LaneshiftConf.AutoscalerQuery),
        "cores" -> conf.get(LaneshiftConf.AutoscalerCores),
        "dry_run" -> conf.get(LaneshiftConf.AutoscalerDryRun),
        "trace" -> conf.get(LaneshiftConf.AutoscalerTrace),
        "parameters" -> conf.getAllWithPrefix(LaneshiftConf.AutoscalerParam).toMap.asJava
      )
      val command = Seq(python(conf), "-m", "laneshift.control.process")
      Some(new ControlProcess(command, settings ++ control.map("control" -> _)))
    }
  }

  private[driver] def python(conf: SparkConf, variables: String => Option[String] = sys.env.get): String =
    Seq(
      Some(conf.get(LaneshiftConf.AutoscalerPython)),
      conf.getOption("spark.pyspark.driver.python").filterNot(isNotebook),
      conf.getOption("spark.pyspark.python"),
      variables("PYSPARK_DRIVER_PYTHON").filterNot(isNotebook),
      variables("PYSPARK_PYTHON")
    ).flatten.find(_.nonEmpty).getOrElse("python3")

  /** What a driver may have for a Python that runs no module as a Python does. */
  private def isNotebook(python: String): Boolean =
    Seq("jupyter", "ipython").exists(new File(python).getName.startsWith)
}
