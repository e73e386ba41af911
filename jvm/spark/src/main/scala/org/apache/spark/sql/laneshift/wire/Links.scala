package org.apache.spark.sql.laneshift.wire

import java.io.IOException
import java.nio.ByteBuffer
import java.util.concurrent.{CompletableFuture, ExecutionException}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.network.client.{
  RpcResponseCallback,
  TransportClient,
  TransportClientBootstrap,
  TransportClientFactory
}
import org.apache.spark.network.crypto.AuthClientBootstrap
import org.apache.spark.util.Utils

/** Opens links to servers of other executors. One per executor process. */
final class Links(settings: LinkSettings) {
  private var running = Option.empty[(LinkContext, TransportClientFactory)]
  private var isStopped = false

  /** Connects, and waits until the other end has taken the link: as long as Spark waits for connections
    * (`spark.network.timeout`), then for its answer as long as it may be silent. Not for network threads. The listener may be
    * told of messages before this returns, and is told nothing if this throws.
    */
  def connect(host: String, port: Int, listener: LinkListener): Link = {
    val address = LinkAddress(host, port)
    val factory = start()
    val client =
      // Threads keep the class loader of whoever starts them: not that of a task.
      try Utils.withContextClassLoader(getClass.getClassLoader)(factory.createUnmanagedClient(host, port))
      catch {
        case error: IOException => throw Links.failed(address, LinkException.brief(error), error)
        case NonFatal(error) =>
          throw Links.failed(address, s"authentication has failed (${LinkException.brief(error)})", error)
      }
    val connection = Connection.of(client.getChannel)
    try greet(client, connection, address, listener).get()
    catch {
      case error: ExecutionException =>
        client.close()
        throw Links.failed(address, LinkException.brief(error), error)
      case error: InterruptedException =>
        client.close()
        throw error
    }
  }

  /** Closes all links and opens no more. Its threads end within seconds. */
  def stop(): Unit = synchronized {
    isStopped = true
    running.foreach { case (context, factory) =>
      context.leaveAll("laneshift has stopped in that executor")
      factory.close()
      context.close()
    }
    running = None
  }

  private def start(): TransportClientFactory = synchronized {
    if (isStopped) throw new LinkException("This executor opens no more links: laneshift has stopped in it")
    if (running.isEmpty) {
      val context = new LinkContext(
        settings,
        new HelloHandler((connection, _, _) =>
          connection.fail(new LinkException("It asks before it answers"))
        ),
        FrameGuard.limitFor(settings.maxMessageBytes),
        (_, _) => ()
      )
      val authentication: Seq[TransportClientBootstrap] =
        if (settings.security.isAuthenticationEnabled())
          Seq(new AuthClientBootstrap(context.getConf, settings.security.getSaslUser(), settings.security))
        else Nil
      running = Some(context -> context.createClientFactory(authentication.asJava))
    }
    running.get._2
  }

  private def greet(
      client: TransportClient,
      connection: Connection,
      address: LinkAddress,
      listener: LinkListener
  ): CompletableFuture[Link] = {
    val opened = new CompletableFuture[Link]
    client.sendRpc(
      settings.hello.encode,
      new RpcResponseCallback {
        override def onSuccess(response: ByteBuffer): Unit =
          Hello.decode(response).left.map(_.reason)
            .flatMap(hello => settings.hello.objection(hello).toLeft(())) match {
            case Right(_) => opened.complete(connection.open(address.toString, _ => listener))
            case Left(reason) => onFailure(new LinkException(reason))
          }

        override def onFailure(error: Throwable): Unit = {
          connection.fail(error)
          opened.completeExceptionally(connection.whyRefused.getOrElse(error))
        }
      }
    )
    opened
  }
}

private object Links {

  private def failed(address: LinkAddress, why: String, cause: Throwable): LinkException =
    new LinkException(s"There is no link to $address: $why", cause)
}
