package org.apache.spark.sql.laneshift.wire

import java.net.BindException
import java.nio.ByteBuffer
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.network.client.RpcResponseCallback
import org.apache.spark.network.crypto.AuthServerBootstrap
import org.apache.spark.network.server.{TransportServer, TransportServerBootstrap}
import org.apache.spark.sql.laneshift.conf.LaneshiftConf
import org.apache.spark.util.Utils

/** Takes links from other executors, from the first time on that somebody asks for its address. One per executor process.
  *
  * @param accept
  *   gives the listener of a new link, on a network thread; what it throws refuses the link
  */
final class LinkServer(settings: LinkSettings, accept: Link => LinkListener) extends Logging {
  private val strangers =
    new RareLog(LinkServer.LogEveryNs, () => System.nanoTime())(line => logWarning(line))
  private var running = Option.empty[(LinkContext, TransportServer)]
  @volatile private var isStopped = false

  /** Where others reach it; starts it if it does not run yet. */
  def address: LinkAddress = synchronized {
    if (isStopped) throw new LinkException("This executor takes no more links: laneshift has stopped in it")
    if (running.isEmpty) running = Some(start())
    LinkAddress(settings.host, running.get._2.getPort)
  }

  /** Closes everything; it cannot be started again. Its threads end within seconds. */
  def stop(): Unit = synchronized {
    isStopped = true
    running.foreach { case (context, server) =>
      context.leaveAll(LinkServer.Stopped)
      server.close()
      context.close()
    }
    running = None
  }

  // Threads keep the class loader of whoever starts them: not that of a task.
  private def start(): (LinkContext, TransportServer) =
    Utils.withContextClassLoader(getClass.getClassLoader) {
      val context = new LinkContext(
        settings,
        new HelloHandler(greet),
        FrameGuard.StrangersLimit,
        (peer, cause) => strangers(s"A connection from $peer was closed: ${LinkException.brief(cause)}")
      )
      try context -> bind(context)
      catch {
        case NonFatal(error) =>
          context.close()
          throw error
      }
    }

  private def bind(context: LinkContext): TransportServer = {
    val authentication: Seq[TransportServerBootstrap] =
      if (settings.security.isAuthenticationEnabled())
        Seq(
          new AuthServerBootstrap(context.getConf, settings.security),
          (_, handler) => new OneTry(handler)
        )
      else Nil
    try Utils.startServiceOnPort(
        settings.port,
        port => {
          val server = context.createServer(settings.bindAddress, port, authentication.asJava)
          (server, server.getPort)
        },
        settings.conf,
        "laneshift remote lanes"
      )._1
    catch {
      case error: BindException =>
        throw new LinkException(
          s"Lanes of other executors cannot be served at ${settings.bindAddress}: ${LaneshiftConf.RemotePort.key} is " +
            s"${settings.port}, and neither that port nor the spark.port.maxRetries (${Utils.portMaxRetries(settings.conf)}) " +
            s"after it can be had. Set ${LaneshiftConf.RemotePort.key} to a free port, or to 0 for any. (${error.getMessage})",
          error
        )
    }
  }

  private def greet(connection: Connection, message: ByteBuffer, callback: RpcResponseCallback): Unit = {
    def refuse(reason: String, cause: Throwable = null): Unit = {
      callback.onSuccess(Hello.refusing(reason).encode)
      connection.fail(new LinkException(reason, cause))
    }
    Hello.decode(message) match {
      case Left(none) if none.isOurs => refuse(none.reason)
      case Left(none) => connection.fail(new LinkException(none.reason))
      case Right(_) if isStopped => refuse(LinkServer.Stopped)
      case Right(hello) =>
        settings.hello.objection(hello) match {
          case Some(reason) => refuse(reason)
          case None =>
            try {
              connection.open(connection.peer, accept)
              callback.onSuccess(settings.hello.encode)
            } catch {
              case NonFatal(error) =>
                logError(s"A link from ${connection.peer} could not be taken.", error)
                refuse(s"it could not be taken there: $error", error)
            }
        }
    }
  }
}

private object LinkServer {
  private val LogEveryNs = TimeUnit.SECONDS.toNanos(10)
  private val Stopped = "laneshift has stopped in that executor"
}
